package rng

// Philox returns the four words of Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
// easy as 1, 2, 3") for a key and a counter. It has no state: equal arguments have equal words, so
// that any thread or device can compute any of them.
func Philox(key uint64, counter [4]uint32) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	c := counter
	for range 10 {
		p, q := uint64(c[0])*0xd2511f53, uint64(c[2])*0xcd9e8d57
		c = [4]uint32{uint32(q>>32) ^ c[1] ^ k0, uint32(q), uint32(p>>32) ^ c[3] ^ k1, uint32(p)}
		k0, k1 = k0+0x9e3779b9, k1+0xbb67ae85
	}
	return c
}

// Fractions fills to with uniform numbers in [0, 1), multiples of 2^-24. Number k is a function of
// key, kind, row and k: word k%4 of Philox for the counter k/4, row, kind, 0.
func Fractions(to []float32, key uint64, kind, row uint32) {
	for k := 0; k < len(to); k += 4 {
		words := Philox(key, [4]uint32{uint32(k / 4), row, kind})
		for j, w := range words[:min(4, len(to)-k)] {
			to[k+j] = float32(w>>8) * 0x1p-24
		}
	}
}
