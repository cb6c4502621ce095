package atari

import "sync"

// generator is MT19937 (Matsumoto & Nishimura 1998), which ALE draws from, so its
// numbers must be the same here. Plain data: copying it saves it.
type generator struct {
	state [624]uint32
	next  int
}

func newGenerator(seed uint32) (g generator) {
	g.state[0] = seed
	for i := uint32(1); i < 624; i++ {
		before := g.state[i-1]
		g.state[i] = 1812433253*(before^before>>30) + i
	}
	g.next = len(g.state)
	return g
}

func (g *generator) draw() uint32 {
	if g.next == len(g.state) {
		for i := range g.state {
			y := g.state[i]&0x80000000 | g.state[(i+1)%624]&0x7fffffff
			g.state[i] = g.state[(i+397)%624] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		g.next = 0
	}
	y := g.state[g.next]
	g.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform returns a number from 0 to below 1, in steps of 1/2^32.
func (g *generator) uniform() float64 { return float64(g.draw()) / (1 << 32) }

// hardwareSeed is that of the generator which stands for what real hardware holds
// when it is turned on. It is the same for all machines, so a machine has only to
// know how far it has drawn.
const hardwareSeed = 4753849

var hardware struct {
	sync.Mutex
	generator generator
	drawn     []uint32
}

// hardwareDraw returns draw number i.
func hardwareDraw(i int) uint32 {
	hardware.Lock()
	defer hardware.Unlock()
	if hardware.drawn == nil {
		hardware.generator = newGenerator(hardwareSeed)
	}
	for len(hardware.drawn) <= i {
		hardware.drawn = append(hardware.drawn, hardware.generator.draw())
	}
	return hardware.drawn[i]
}
