package games

import (
	"fmt"
	"strconv"
	"strings"
)

// The language of the rules is a small part of Python's expressions; the head of games_a_j.txt
// describes it. This file parses text into trees of nodes.

// node is a node of an expression. Its op is the instruction that computes it. A few, such as
// opAnd, need several instructions.
type node struct {
	op    op
	arg   int32
	name  string // a variable's name
	kids  []*node
	table table // for operators on many bytes, and for opIn
	at    int   // column, from 1
}

// assignment assigns an expression to a variable.
type assignment struct {
	name  string
	at    int
	value *node
}

type token struct {
	text string
	at   int // column, from 1
}

// parser stores the first mistake. After a mistake it only sees the end of the text.
type parser struct {
	text   string
	tokens []token // the last token is the end, ""
	err    error
}

const symbols = "; = ( ) , == != <= >= << >> < > + - * // % & | ^ .."

func newParser(text string) *parser {
	p := &parser{text: text}
	for i := 0; i < len(text); {
		c := text[i]
		n := 1
		switch {
		case c == ' ':
			i++
			continue
		case c == '$' || isWord(c):
			for i+n < len(text) && isWord(text[i+n]) {
				n++
			}
		case i+1 < len(text) && isSymbol(text[i:i+2]):
			n = 2
		case !isSymbol(text[i : i+1]):
			p.fail(i+1, "%q is not part of the language", c)
			return p
		}
		p.tokens = append(p.tokens, token{text[i : i+n], i + 1})
		i += n
	}
	p.tokens = append(p.tokens, token{"", len(text) + 1})
	return p
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isSymbol(s string) bool {
	return len(s) > 0 && s != " " && strings.Contains(" "+symbols+" ", " "+s+" ")
}

func (p *parser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("column %d of %q: %s", at, p.text, fmt.Sprintf(format, args...))
	}
	p.tokens = []token{{"", at}}
}

func (p *parser) next() token {
	t := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) peek() string { return p.tokens[0].text }

func (p *parser) accept(text string) bool {
	if p.peek() != text {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(text string) {
	if t := p.tokens[0]; !p.accept(text) {
		p.fail(t.at, "expected %q, found %s", text, shown(t.text))
	}
}

func shown(text string) string {
	if text == "" {
		return "the end"
	}
	return strconv.Quote(text)
}

// parseStatements reads assignments separated by semicolons.
func parseStatements(text string) ([]assignment, error) {
	p := newParser(text)
	var list []assignment
	for p.err == nil && p.peek() != "" {
		t := p.next()
		if !isName(t.text) {
			p.fail(t.at, "expected a variable's name, found %q", t.text)
			break
		}
		p.expect("=")
		list = append(list, assignment{t.text, t.at, p.expression()})
		if p.peek() != "" {
			p.expect(";")
		}
	}
	return list, p.err
}

// parseExpression reads one expression.
func parseExpression(text string) (*node, error) {
	p := newParser(text)
	n := p.expression()
	if t := p.tokens[0]; t.text != "" {
		p.fail(t.at, "%q after the end of the expression", t.text)
	}
	return n, p.err
}

var keywords = map[string]bool{"and": true, "or": true, "not": true, "in": true, "if": true, "else": true, "True": true, "False": true}

func isName(text string) bool {
	return text != "" && isWord(text[0]) && (text[0] < '0' || text[0] > '9') && !keywords[text]
}

// expression reads `a if c else b`, or an expression of higher precedence.
func (p *parser) expression() *node {
	a := p.operation(1)
	at := p.tokens[0].at
	if !p.accept("if") {
		return a
	}
	c := p.operation(1)
	p.expect("else")
	return &node{op: opIf, kids: []*node{c, a, p.expression()}, at: at}
}

// levels holds the operators' precedence, as in Python.
var levels = map[string]struct {
	op    op
	level int
}{
	"or": {opOr, 1}, "and": {opAnd, 2},
	"==": {opEq, 4}, "!=": {opNe, 4}, "<": {opLt, 4}, "<=": {opLe, 4}, ">": {opGt, 4}, ">=": {opGe, 4}, "in": {opIn, 4}, "not": {opIn, 4},
	"|": {opBitOr, 5}, "^": {opBitXor, 6}, "&": {opBitAnd, 7}, "<<": {opShl, 8}, ">>": {opShr, 8},
	"+": {opAdd, 9}, "-": {opSub, 9}, "*": {opMul, 10}, "//": {opDiv, 10}, "%": {opMod, 10},
}

const (
	levelNot     = 3
	levelCompare = 4
	levelSign    = 11
)

// operation reads operators with a precedence of at least least.
func (p *parser) operation(least int) *node {
	left := p.prefixed(least)
	for compared := false; ; {
		t := p.tokens[0]
		o, ok := levels[t.text]
		if !ok || o.level < least {
			return left
		}
		if compared && o.level == levelCompare {
			p.fail(t.at, "comparisons cannot be chained")
			return left
		}
		compared = o.level == levelCompare
		p.next()
		switch {
		case o.op == opIn:
			if t.text == "not" {
				p.expect("in")
			}
			left = &node{op: opIn, kids: []*node{left}, table: table{set: p.set()}, at: t.at}
			if t.text == "not" {
				left = &node{op: opNot, kids: []*node{left}, at: t.at}
			}
		default:
			left = &node{op: o.op, kids: []*node{left, p.operation(o.level + 1)}, at: t.at}
		}
	}
}

func (p *parser) prefixed(least int) *node {
	t := p.tokens[0]
	switch {
	case t.text == "not" && least <= levelNot:
		p.next()
		return &node{op: opNot, kids: []*node{p.operation(levelNot)}, at: t.at}
	case t.text == "-":
		p.next()
		n := p.operation(levelSign)
		if n.op == opConst && n.name == "" {
			return &node{op: opConst, arg: -n.arg, at: t.at}
		}
		return &node{op: opNeg, kids: []*node{n}, at: t.at}
	}
	return p.atom()
}

// functions holds the functions: their instruction, their number of arguments (-1: any) and whether
// their arguments are cells of RAM.
var functions = map[string]struct {
	op    op
	kids  int
	cells bool
}{
	"bcd": {opBCD, -1, false}, "min": {opMin, 2, false}, "max": {opMax, 2, false},
	"signed": {opSigned, 1, false}, "digit": {opDigit, 1, false}, "tens": {opTens, 1, false},
	"glyph": {opGlyph, 1, false}, "glyph80": {opGlyph80, 1, false}, "bits": {opBits, 1, false},
	"bool": {opTruth, 1, false}, "M": {opCart, 1, false},
	"count": {opCount, 0, true}, "positive": {opPositive, 0, true}, "negative": {opNegative, 0, true},
	"digits": {opDigits, 0, true}, "uniform": {opUniform, 0, true},
}

func (p *parser) atom() *node {
	t := p.next()
	n := &node{at: t.at}
	switch {
	case t.text == "(":
		n = p.expression()
		p.expect(")")
	case strings.HasPrefix(t.text, "$"):
		n.op, n.arg = opRAM, int32(p.cell(t))
	case t.text == "True" || t.text == "False":
		n.op, n.arg, n.name = opConst, truth(t.text == "True"), t.text
	case isName(t.text) && p.peek() == "(":
		p.call(n, t)
	case isName(t.text):
		n.op, n.name = opVar, t.text
	default:
		n.op, n.arg = opConst, p.number(t)
	}
	return n
}

func (p *parser) number(t token) int32 {
	v, err := strconv.ParseInt(t.text, 0, 32)
	switch {
	case err != nil && t.text != "" && t.text[0] >= '0' && t.text[0] <= '9':
		p.fail(t.at, "%q is not a whole number of 31 bits", t.text)
	case err != nil:
		p.fail(t.at, "expected a value, found %s", shown(t.text))
	}
	return int32(v)
}

// cell reads `$XX` as an index of RAM.
func (p *parser) cell(t token) uint8 {
	v, err := strconv.ParseUint(strings.TrimPrefix(t.text, "$"), 16, 8)
	if t.text == "" || t.text[0] != '$' || len(t.text) != 3 || err != nil || v < 0x80 {
		p.fail(t.at, "expected an address of RAM, $80 to $FF, found %s", shown(t.text))
		return 0
	}
	return uint8(v - 0x80)
}

// cells reads addresses and ranges of addresses, separated by commas, up to `)`.
func (p *parser) cells() (list []uint8) {
	for {
		t := p.next()
		first := p.cell(t)
		last := first
		if p.accept("..") {
			last = p.cell(p.next())
		}
		if last < first {
			p.fail(t.at, "the range ends before it begins")
		}
		if p.err != nil {
			return nil
		}
		for c := first; c <= last; c++ {
			list = append(list, c)
		}
		if !p.accept(",") {
			return list
		}
	}
}

// set reads one byte value, or several in parentheses.
func (p *parser) set() (set [4]uint64) {
	several := p.accept("(")
	for p.err == nil {
		t := p.next()
		v := p.number(t)
		if p.err == nil && (v < 0 || v > 255) {
			p.fail(t.at, "%d, must be 0 to 255", v)
			break
		}
		set[v>>6&3] |= 1 << (v & 63)
		if !several || !p.accept(",") {
			break
		}
	}
	if several {
		p.expect(")")
	}
	return set
}

func (p *parser) call(n *node, t token) {
	f, ok := functions[t.text]
	if !ok {
		p.fail(t.at, "function %q is not known", t.text)
		return
	}
	n.op, n.name = f.op, t.text
	p.expect("(")
	if !f.cells {
		n.kids = append(n.kids, p.expression())
		for p.accept(",") {
			n.kids = append(n.kids, p.expression())
		}
		if p.err == nil && f.kids >= 0 && len(n.kids) != f.kids {
			p.fail(t.at, "%s of %d values, must be of %d", t.text, len(n.kids), f.kids)
		}
		p.expect(")")
		return
	}
	switch n.op {
	case opCount:
		n.table.set = p.set()
		p.expect(",")
	case opUniform:
		n.table.group = int(p.number(p.next()))
		p.expect(",")
	}
	n.table.cells = p.cells()
	if g := n.table.group; p.err == nil && n.op == opUniform && (g < 1 || len(n.table.cells)%g != 0) {
		p.fail(t.at, "groups of %d cells, must divide the %d", g, len(n.table.cells))
	}
	p.expect(")")
}
