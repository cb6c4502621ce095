// Package nearest finds the known names that are closest to a misspelt name.
package nearest

// Names returns the known names with the least edit distance from name, in the order of known. It
// returns nil if the least distance is above limit, or above half of name's bytes: name is then
// another word. fold (nil: none) is applied to name and to the known names before the comparison.
// It removes differences, such as case, that do not make another name.
func Names(name string, known []string, limit int, fold func(string) string) (near []string) {
	if fold == nil {
		fold = func(s string) string { return s }
	}
	name = fold(name)
	least := min(limit, len(name)/2)
	for _, k := range known {
		d := distance(name, fold(k))
		if d < least {
			least, near = d, nil
		}
		if d == least {
			near = append(near, k)
		}
	}
	return near
}

// distance returns the Levenshtein distance: the smallest number of single-byte insertions,
// deletions and replacements that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: distance from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
