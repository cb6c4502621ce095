package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestDuelMatchesItsFormula(t *testing.T) {
	for _, c := range []struct {
		width, points int
		byAction      bool
	}{{1, 1, true}, {4, 1, false}, {3, 5, true}, {3, 5, false}, {18, 51, true}} {
		const n = 3
		r, a := rand.New(rand.NewPCG(1, 2)), newArena()
		size := n * c.width * c.points
		value, advantage, dy := a.random("value", n*c.points, r), a.random("advantage", size, r), a.random("dy", size, r)
		y, dvalue, dadvantage := a.out("y", size), a.out("dvalue", n*c.points), a.out("dadvantage", size)
		Duel(y, value, advantage, c.width, c.points, c.byAction)
		DuelBackward(dvalue, dadvantage, dy, c.width, c.points, c.byAction)
		a.check(t)
		at := func(i, action, k int) int {
			if c.byAction {
				return (i*c.width+action)*c.points + k
			}
			return (i*c.points+k)*c.width + action
		}
		for i := range n {
			for k := range c.points {
				mean, sum := 0.0, 0.0
				for action := range c.width {
					mean += float64(advantage[at(i, action, k)]) / float64(c.width)
					sum += float64(dy[at(i, action, k)])
				}
				near(t, fmt.Sprint("dvalue of ", c), dvalue[i*c.points+k], sum, 1)
				for action := range c.width {
					j := at(i, action, k)
					near(t, fmt.Sprint("y of ", c), y[j], float64(value[i*c.points+k])+float64(advantage[j])-mean, 1)
					near(t, fmt.Sprint("dadvantage of ", c), dadvantage[j], float64(dy[j])-sum/float64(c.width), 1)
				}
			}
		}
	}
}
