package ga3c

import (
	"bytes"
	"math"
	"testing"
)

// A trace has the latest traceMost proposals, in the order of their periods.
func TestTraceIsBounded(t *testing.T) {
	var of trace
	most := counts{4, 4, 64}
	for n := range int64(traceMost + 3) {
		of.add(proposal{n + 1, n * 1e9, 1, 2, 3, math.NaN(), float64(n), math.Inf(1), uint8(n % 2)})
	}
	if err := of.check(traceMost+3, most); err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(of.csv(traceMost+3), []byte("\n"))
	first, last := string(lines[1]), string(lines[len(lines)-2])
	if len(lines) != traceMost+2 || first != "4,3.000000,1,2,3,NaN,3,+Inf,true" || last != "100003,100002.000000,1,2,3,NaN,100002,+Inf,false" {
		t.Errorf("%d lines, from %q to %q", len(lines), first, last)
	}
	for name, change := range map[string]func(row []byte){
		"period": func(row []byte) { row[0]++ }, "time": func(row []byte) { row[15] = 0x80 }, "predictors": func(row []byte) { row[16] = 5 },
		"agents": func(row []byte) { row[24] = 0 }, "kept": func(row []byte) { row[proposalBytes-1] = 2 },
	} {
		bad := bytes.Clone(of)
		if change(bad[7*proposalBytes:]); trace(bad).check(traceMost+3, most) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if of.check(traceMost-1, most) == nil || of[proposalBytes:].check(traceMost+3, most) == nil || trace(nil).check(1, most) == nil {
		t.Error("lengths are not refused")
	}
}
