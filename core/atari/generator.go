package atari

import "sync"

// generator is MT19937 (Matsumoto & Nishimura 1998), ALE's generator, and draws ALE's numbers. It
// is plain data: copying it saves it.
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

// uniform returns a number in [0, 1), a multiple of 1/2^32.
func (g *generator) uniform() float64 { return float64(g.draw()) / (1 << 32) }

// hardwareSeed is the seed of the generator for the random contents of hardware at power-on. The
// generator is the same for all machines, so a machine only stores its number of draws.
const hardwareSeed = 4753849

var hardware struct {
	sync.Mutex
	generator generator
	drawn     []uint32
}

// hardwareDraw returns draw i of the hardware's generator.
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
