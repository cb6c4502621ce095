package nn

// For the tests in package nn_test.
var (
	Orthogonal   = orthogonal
	Gaussian     = gaussian
	Logarithm    = logarithm
	WriteTensors = writeTensors
	Elements     = elements
)
