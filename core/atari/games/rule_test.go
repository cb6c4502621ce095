package games

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// value compiles `S=text`, runs it once and returns S.
func value(t *testing.T, text string, ram *[128]byte) int {
	t.Helper()
	r, err := (&source{step: "S=" + text, lives: "0"}).compile()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var s State
	r.step.run(&s, ram, func(a uint16) byte { return byte(a) }, 0)
	return int(s[slotScore])
}

func TestExpressionsHaveTheRightValues(t *testing.T) {
	ram := &[128]byte{0: 0x12, 1: 0x34, 2: 0xFF, 3: 0xAB, 4: 0x80, 5: 0x48, 6: 0x49, 7: 0x50, 10: 7, 11: 7, 12: 7, 13: 7, 14: 8, 15: 7}
	for text, want := range map[string]int{
		"1+2*3": 7, "(1+2)*3": 9, "10-3-2": 5, "7//2": 3, "-7//2": -4, "-7%4": 1, "7%4": 3, "-$80": -0x12, "--3": 3,
		"1<<4": 16, "1+1<<4": 32, "$81>>4": 3, "-16>>2": -4, "6&3": 2, "6|3": 7, "6^3": 5, "6&3+1": 4, "1|2^3&2": 1,
		"$80": 0x12, "$80+256*$81": 0x3412, "0x10": 16, "min(3,-4)": -4, "max(3,-4)": 3,
		"bcd($80)": 12, "bcd($80,$81)": 3412, "bcd($80,1+1)": 212, "bcd(0x99,$80)": 1299, "bcd($82)": 165, "bcd($80,M(0xF034))": 3412,
		"signed($82)": -1, "signed($80)": 18, "bits($82)": 8, "bits($80&0x10)": 1,
		"digit($83)": 11, "digit(0x3A)": 0, "tens($83)": 0, "tens($81)": 3, "digits($80..$82)": 15*100 + 42, "digits($81,$80)": 24,
		"glyph($85)": 9, "glyph($86)": 0, "glyph($87)": 0, "glyph80($84)": 0, "glyph80($86)": 9, "glyph80($87)": 10,
		"M(0xF0EA)": 0xEA, "count((7,0x80),$84..$8F)": 6, "count(7,$8A..$8F)": 5, "count(0,$80..$87)": 0,
		"positive($81..$83)": 0x34, "negative($81..$83)": -1 - 0x55, "uniform(2,$8A..$8F)": 2, "uniform(3,$8A..$8F)": 1,
		"1 if $80==0x12 else 2": 1, "1 if $80!=0x12 else 2": 2, "1 if False else 2 if True else 3": 2, "(1 if True else 2)+10": 11,
		"1 if 2<3 and 3<=3 and 3>2 and 3>=3 else 0": 1, "1 if 3<2 or 3<3 or 2>3 or 2>=3 else 0": 0,
		"1 if not 1==1 or 2==2 else 0": 1, "1 if True or False and False else 0": 1, "1 if (True or False) and False else 0": 0,
		"1 if $80 in (1,0x12) else 0": 1, "1 if $80 not in (1,0x12) else 0": 0, "1 if -1 in (255,1) else 0": 0, "1 if 300 in (44,1) else 0": 0,
		"1 if bool($80&2) else 0": 1, "1 if bool($80&1) else 0": 0, "1 if 6&3==2 else 0": 1, "1 if not not True else 0": 1,
	} {
		if got := value(t, text, ram); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// Arithmetic on random operands equals Go's, with Python's rounding.
func TestOperatorsRoundLikePython(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	floor := func(a, b int) int {
		if q := a / b; q*b > a {
			return q - 1
		} else {
			return q
		}
	}
	programs := map[string]func(a, b int) int{
		"a+b": func(a, b int) int { return a + b }, "a-b": func(a, b int) int { return a - b }, "a*b": func(a, b int) int { return a * b },
		"a//7": func(a, b int) int { return floor(a, 7) }, "a%7": func(a, b int) int { return a - 7*floor(a, 7) },
		"a>>3": func(a, b int) int { return a >> 3 }, "b<<3": func(a, b int) int { return b << 3 },
		"a&b": func(a, b int) int { return a & b }, "a|b": func(a, b int) int { return a | b }, "a^b": func(a, b int) int { return a ^ b },
		"a if a<b else b": func(a, b int) int { return min(a, b) }, "b if a<=b else a": func(a, b int) int { return max(a, b) },
		"a if a>b else b": func(a, b int) int { return max(a, b) }, "b if a>=b else a": func(a, b int) int { return min(a, b) },
	}
	for text, want := range programs {
		r, err := (&source{step: "a=256*signed($80)+$81; b=256*signed($82)+$83; x=a+b; S=0*x+(" + text + ")", lives: "0"}).compile()
		if err != nil {
			t.Fatal(text, err)
		}
		for range 500 {
			ram := [128]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
			a, b := int(int16(uint16(ram[0])<<8|uint16(ram[1]))), int(int16(uint16(ram[2])<<8|uint16(ram[3])))
			var s State
			if r.step.run(&s, &ram, nil, 0); int(s[slotScore]) != want(a, b) {
				t.Fatalf("%s with a=%d, b=%d: %d, want %d", text, a, b, s[slotScore], want(a, b))
			}
		}
	}
}

func TestRuleErrorsNameTheMistake(t *testing.T) {
	long := "$80"
	for range stackSize {
		long = "1+(" + long + ")"
	}
	for step, want := range map[string]string{
		"S=q":                    `column 3 of "S=q; R=S-s; s=S; lives=0": variable "q" is not known`,
		"S=q; q=1":               `variable "q" is not known`,
		"q=1; S=1":               `variable "q" is never read`,
		"S=S+1":                  `variable "S" is read before it has a value`,
		"S=1 2":                  `expected ";", found "2"`,
		"S=":                     "expected a value, found the end",
		"S=(1":                   `expected ")", found the end`,
		"S 1":                    `expected "=", found "1"`,
		"1=2":                    `expected a variable's name, found "1"`,
		"in=2":                   `expected a variable's name, found "in"`,
		"S=1 if True":            `expected "else", found the end`,
		"S=#":                    `'#' is not part of the language`,
		"S=$7F":                  `expected an address of RAM, $80 to $FF, found "$7F"`,
		"S=$1":                   `found "$1"`,
		"S=$80..$81":             `expected ";", found ".."`,
		"S=0x1FFFFFFFF":          `"0x1FFFFFFFF" is not a whole number of 31 bits`,
		"S=1.5":                  `'.' is not part of the language`,
		"S=sum(1)":               `function "sum" is not known`,
		"S=min(1)":               "min of 1 values, must be of 2",
		"S=digits(1)":            `expected an address of RAM, $80 to $FF, found "1"`,
		"S=digits($81..$80)":     "the range ends before it begins",
		"S=uniform(2,$80..$82)":  "groups of 2 cells, must divide the 3",
		"S=uniform(0,$80)":       "groups of 0 cells",
		"S=count(256,$80)":       "256, must be 0 to 255",
		"S=1//0":                 "the right operand must be a number 1 to 2147483647",
		"S=1%$80":                "the right operand must be a number 1 to",
		"S=1<<32":                "the right operand must be a number 0 to 31",
		"S=1==1":                 "S is given a truth value, must be a number",
		"S=1; T=1":               "T is given a number, must be a truth value",
		"S=True+1":               "a truth value, must be a number",
		"S=1 if $80 else 2":      "a number, must be a truth value",
		"S=1; T=$80 or False":    "a number, must be a truth value",
		"S=1 if True else False": "the two values are of different kinds",
		"S=1; T=1<2<3":           "comparisons cannot be chained",
		"S=1; T=1+not True":      `expected a value, found "not"`,
		"S=1; T=1 not 2":         `expected "in", found "2"`,
		"S=m":                    `variable "m" is not known`,
		"m=1; S=m":               `variable "m" is not known`,
		"T=True":                 `variable "S" is read before it has a value`,
		"S=" + long:              "the expression needs a stack deeper than 8",
		"a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;S=a+b+c+d+e+f+g+h+i+j+k": `variable "k" is one too many, must be 10 or fewer`,
	} {
		_, err := (&source{step: step, lives: "0"}).compile()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", step, err, want)
		}
	}
	for _, x := range []struct {
		s    source
		want string
	}{
		{source{step: "S=1", lives: "q"}, `variable "q" is not known`},
		{source{step: "S=1", lives: "0", init: "S=1"}, "S is computed by the step"},
		{source{step: "S=1", lives: "0", init: "old=1"}, `variable "old" is never read`},
		{source{step: "S=1", lives: "0", init: "T=1"}, "T is given a number"},
		{source{step: "S=1", lives: "0", keep: []string{"q"}}, `variable "q" is not known`},
		{source{step: "S=1", lives: "0", chosen: "q=1"}, `variable "q" is not known`},
		{source{step: "S=1", lives: "0", selected: "$80"}, "a number, must be a truth value"},
		{source{step: "S=1", lives: "0", selected: "$80==m 1"}, `"1" after the end of the expression`},
		{source{step: "S=1", lives: "0", steers: "$80==q"}, `variable "q" is not known`},
	} {
		if _, err := x.s.compile(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %s", x.s, err, x.want)
		}
	}
}

// FuzzCompile compiles arbitrary text. Compiling returns, and compiled rules run.
func FuzzCompile(f *testing.F) {
	for _, g := range All() {
		f.Add(g.source.step)
	}
	f.Add("S=1//(2; T=not")
	f.Fuzz(func(t *testing.T, step string) {
		if len(step) > 2000 {
			return
		}
		r, err := (&source{step: step, lives: "0"}).compile()
		if err != nil {
			return
		}
		var s State
		ram := [128]byte{1, 2, 0xFF}
		for i := range 3 {
			ram[i]++
			r.step.run(&s, &ram, func(uint16) byte { return 0x5A }, 0)
		}
	})
}
