package nn

// Exports for package nn_test.
var (
	Orthogonal   = orthogonal
	Gaussian     = gaussian
	Logarithm    = logarithm
	WriteTensors = writeTensors
	Elements     = elements
)
