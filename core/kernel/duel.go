package kernel

// Duel overwrites y with the numbers of a dueling head (Wang et al. 2016, equation 9): for point k
// of action a
//
//	value[k] + (advantage[a, k] - mean over the actions of advantage[., k])
//
// y and advantage are n rows of width*points numbers: [action, point] if byAction, else
// [point, action]. value is [n, points]. Means are sums in float64, in the order of the actions.
func Duel(y, value, advantage []float32, width, points int, byAction bool) {
	n, ofAction, ofPoint := duelShape(y, value, advantage, width, points, byAction)
	for i := range n {
		for k := range points {
			at := i*width*points + k*ofPoint
			mean, v := float32(sumOf(advantage[at:], width, ofAction)/float64(width)), value[i*points+k]
			for a := range width {
				y[at+a*ofAction] = v + (advantage[at+a*ofAction] - mean)
			}
		}
	}
}

// DuelBackward overwrites dvalue and dadvantage with the gradients of Duel's inputs. dy is the
// gradient of y. dadvantage may be dy.
func DuelBackward(dvalue, dadvantage, dy []float32, width, points int, byAction bool) {
	n, ofAction, ofPoint := duelShape(dy, dvalue, dadvantage, width, points, byAction)
	for i := range n {
		for k := range points {
			at := i*width*points + k*ofPoint
			sum := sumOf(dy[at:], width, ofAction)
			mean := float32(sum / float64(width))
			dvalue[i*points+k] = float32(sum)
			for a := range width {
				dadvantage[at+a*ofAction] = dy[at+a*ofAction] - mean
			}
		}
	}
}

// duelShape returns the number of rows, and the distances of two actions and of two points.
func duelShape(y, value, advantage []float32, width, points int, byAction bool) (n, ofAction, ofPoint int) {
	n = len(y) / (width * points)
	atLeast("value", len(value), n*points)
	atLeast("advantage", len(advantage), len(y))
	if byAction {
		return n, points, 1
	}
	return n, 1, width
}

func sumOf(x []float32, n, stride int) (sum float64) {
	for a := range n {
		sum += float64(x[a*stride])
	}
	return sum
}
