package games

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// source is the text of a game's rule in the table.
type source struct {
	init, step, lives        string
	keep                     []string
	selected, chosen, steers string
}

// rule is a compiled source.
type rule struct {
	init, step, chosen program // statements
	selected, steered  program // expressions; empty: the game has none
	kept               uint    // bit i: slot i keeps its value between episodes
}

// livesByDefault is the most common expression for lives.
const livesByDefault = "0 if T else L"

// variable is a variable of a rule.
type variable struct {
	slot  int
	truth bool // the variable is a truth value, otherwise a number
	known bool // the variable has a value at this point of the code
	used  bool
}

// compiler compiles one rule. err is the first mistake; code emitted after a mistake is not used.
type compiler struct {
	text    string // the text being compiled, for errors
	out     *program
	vars    map[string]*variable
	step    bool // statements may declare variables
	hasMode bool // `m` is the mode
	depth   int  // depth of the stack
	err     error
}

func (s *source) compile() (*rule, error) {
	c := &compiler{vars: map[string]*variable{
		"S": {slot: slotScore}, "s": {slot: slotLast, known: true}, "R": {slot: slotReward, known: true},
		"T": {slot: slotTerminal, truth: true, known: true}, "L": {slot: slotL, known: true}, "lives": {slot: slotLives},
	}}
	r := &rule{}
	lives := "; lives=" + s.lives

	c.step = true
	if init := c.statements(&r.init, strings.TrimPrefix(s.init+lives, "; ")); c.assigns(init, "S") {
		c.fail(1, "S is computed by the step; the score it is compared with starts as s")
	}
	for _, v := range c.vars {
		v.used = v.slot < firstOwn
	}
	step := c.parse(s.step)
	closing := ""
	if !c.assigns(step, "R") {
		closing += "; R=S-s"
	}
	if c.assigns(step, "S") {
		closing += "; s=S"
	}
	c.statements(&r.step, s.step+closing+lives)
	c.step = false

	for _, name := range slices.Sorted(maps.Keys(c.vars)) {
		if !c.vars[name].used {
			c.fail(1, "variable %q is never read", name)
		}
	}
	c.hasMode = true
	if s.chosen != "" {
		c.statements(&r.chosen, s.chosen+lives)
	}
	c.test(&r.selected, s.selected)
	c.test(&r.steered, s.steers)
	for _, name := range s.keep {
		v := c.vars[name]
		if v == nil {
			c.text = strings.Join(s.keep, " ")
			c.fail(1, "variable %q is not known", name)
			break
		}
		r.kept |= 1 << v.slot
	}
	return r, c.err
}

// test compiles an expression that must be a truth value, unless text is empty.
func (c *compiler) test(p *program, text string) {
	if text == "" {
		return
	}
	c.begin(p, text)
	n, err := parseExpression(text)
	c.note(err)
	if c.err == nil {
		c.want(n, true)
	}
}

func (c *compiler) begin(p *program, text string) {
	c.out, c.text, c.depth = p, text, 0
}

func (c *compiler) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *compiler) fail(at int, format string, args ...any) {
	c.note(fmt.Errorf("column %d of %q: %s", at, c.text, fmt.Sprintf(format, args...)))
}

func (c *compiler) parse(text string) []assignment {
	list, err := parseStatements(text)
	c.note(err)
	return list
}

func (c *compiler) assigns(list []assignment, name string) bool {
	return slices.ContainsFunc(list, func(a assignment) bool { return a.name == name })
}

func (c *compiler) statements(p *program, text string) []assignment {
	c.begin(p, text)
	list := c.parse(text)
	for _, a := range list {
		if c.err != nil {
			break
		}
		isTruth := c.expression(a.value)
		v := c.vars[a.name]
		if v == nil {
			v = c.declare(a, isTruth)
		}
		if v.truth != isTruth {
			c.fail(a.at, "%s is given %s, must be %s", a.name, kind(isTruth), kind(v.truth))
		}
		v.known = true
		c.emit(-1, opStore, int32(v.slot))
	}
	return list
}

func (c *compiler) declare(a assignment, isTruth bool) *variable {
	v := &variable{slot: len(c.vars), truth: isTruth}
	if !c.step || a.name == "m" {
		c.fail(a.at, "variable %q is not known", a.name)
	}
	if v.slot >= slots {
		c.fail(a.at, "variable %q is one too many, must be %d or fewer", a.name, slots-firstOwn)
	}
	c.vars[a.name] = v
	return v
}

func kind(isTruth bool) string {
	if isTruth {
		return "a truth value"
	}
	return "a number"
}

// emit appends an instruction that changes the depth of the stack by grows.
func (c *compiler) emit(grows int, o op, arg int32) {
	c.out.code = append(c.out.code, instruction{op: o, arg: arg})
	if c.depth += grows; c.depth > stackSize {
		c.fail(1, "the expression needs a stack deeper than %d", stackSize)
	}
}

// want compiles an expression that must be a truth value, or with isTruth false a number.
func (c *compiler) want(n *node, isTruth bool) {
	if c.expression(n) != isTruth {
		c.fail(n.at, "%s, must be %s", kind(!isTruth), kind(isTruth))
	}
}

// numbers compiles several expressions that must be numbers.
func (c *compiler) numbers(list []*node) {
	for _, n := range list {
		c.want(n, false)
	}
}

// expression emits the code that pushes the expression's value, and returns
// whether it is a truth value.
func (c *compiler) expression(n *node) (isTruth bool) {
	switch n.op {
	case opConst:
		c.emit(1, opConst, n.arg)
		return n.name != ""
	case opRAM:
		c.emit(1, opRAM, n.arg)
		return false
	case opVar:
		return c.variable(n)
	case opIf:
		c.want(n.kids[0], true)
		toElse := c.jump(-1, opIf)
		a := c.expression(n.kids[1])
		toEnd := c.jump(0, opJump)
		c.land(toElse)
		c.depth--
		if c.expression(n.kids[2]) != a {
			c.fail(n.at, "the two values are of different kinds")
		}
		c.land(toEnd)
		return a
	case opAnd, opOr:
		c.want(n.kids[0], true)
		toEnd := c.jump(-1, n.op)
		c.want(n.kids[1], true)
		c.land(toEnd)
		return true
	case opNot:
		c.want(n.kids[0], true)
		c.emit(0, opNot, 0)
		return true
	case opBCD:
		c.digitPairs(n)
		return false
	case opCount, opPositive, opNegative, opDigits, opUniform:
		c.emit(1, n.op, c.table(n))
		return false
	case opIn:
		c.numbers(n.kids)
		c.emit(0, opIn, c.table(n))
		return true
	case opShl, opShr, opDiv, opMod:
		c.want(n.kids[0], false)
		c.emit(0, n.op, c.constant(n))
		return false
	}
	if len(n.kids) == 2 && n.kids[1].op == opConst && n.kids[1].name == "" {
		c.want(n.kids[0], false)
		c.out.code = append(c.out.code, instruction{op: n.op, immediate: true, arg: n.kids[1].arg})
	} else {
		c.numbers(n.kids)
		c.emit(1-len(n.kids), n.op, 0)
	}
	switch n.op {
	case opTruth, opEq, opNe, opLt, opLe, opGt, opGe:
		return true
	}
	return false
}

func (c *compiler) variable(n *node) (isTruth bool) {
	if n.name == "m" && c.hasMode {
		c.emit(1, opMode, 0)
		return false
	}
	v := c.vars[n.name]
	switch {
	case v == nil:
		c.fail(n.at, "variable %q is not known", n.name)
		return false
	case !v.known:
		c.fail(n.at, "variable %q is read before it has a value", n.name)
	}
	v.used = true
	c.emit(1, opVar, int32(v.slot))
	return v.truth
}

// constant returns the right operand of a shift or a division. Its range ensures that the
// instruction cannot fail.
func (c *compiler) constant(n *node) int32 {
	by := n.kids[1]
	least, most := int32(1), int32(1<<31-1)
	if n.op == opShl || n.op == opShr {
		least, most = 0, 31
	}
	if by.op != opConst || by.name != "" || by.arg < least || by.arg > most {
		c.fail(n.at, "the right operand must be a number %d to %d", least, most)
	}
	return by.arg
}

// digitPairs emits bcd(a, b, ..). The first byte has the lowest digits.
func (c *compiler) digitPairs(n *node) {
	for i := len(n.kids) - 1; i >= 0; i-- {
		k, first := n.kids[i], i == len(n.kids)-1
		switch {
		case k.op == opRAM && first:
			c.emit(1, opRAMBCD, k.arg)
		case k.op == opRAM:
			c.emit(0, opRAMNext, k.arg)
		case first:
			c.want(k, false)
			c.emit(0, opBCD, 0)
		default:
			c.want(k, false)
			c.emit(-1, opNext, 0)
		}
	}
}

func (c *compiler) table(n *node) int32 {
	c.out.tables = append(c.out.tables, n.table)
	return int32(len(c.out.tables) - 1)
}

// jump emits a jump with an unknown target and returns its position.
func (c *compiler) jump(grows int, o op) int {
	c.emit(grows, o, 0)
	return len(c.out.code) - 1
}

// land sets the target of the jump at a position to the next instruction.
func (c *compiler) land(at int) {
	c.out.code[at].arg = int32(len(c.out.code))
}
