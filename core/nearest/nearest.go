// Package nearest finds what somebody meant who misspelt a name.
package nearest

// Names returns those of known that are the fewest edits away from name, in
// known's order: all that share the least distance, or none if that is above
// most or above half of name's bytes, as it would be another word. fold is applied to both sides first, to drop what people get wrong
// without meaning another name; nil changes nothing.
func Names(name string, known []string, most int, fold func(string) string) (near []string) {
	if fold == nil {
		fold = func(s string) string { return s }
	}
	name = fold(name)
	most = min(most, len(name)/2)
	for _, k := range known {
		d := distance(name, fold(k))
		if d < most {
			most, near = d, nil
		}
		if d == most {
			near = append(near, k)
		}
	}
	return near
}

// distance is the Levenshtein distance: the fewest single-byte insertions,
// deletions and replacements that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from the part of a seen so far to b[:j]
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
