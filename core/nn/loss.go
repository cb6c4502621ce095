package nn

import (
	"fmt"
)

// Loss is a function of the heads' outputs and of numbers that come with each row. It is a value:
// TD, CrossEntropy, QuantileHuber, ImplicitHuber, ActorCritic and PPO are the losses that the
// devices compute. What a loss compares with (a target network's values, returns, advantages) comes
// in columns, which are computed before the loss; no gradient flows into them.
type Loss interface {
	// Columns are the numbers of each row, in the order of Batch.Columns. s is a network that Check
	// accepts.
	Columns(s *Spec) []Column
	// Parts names the summands of the loss, in the order of Report.Parts.
	Parts() []string
	// PerRow says what Report.Rows holds; "": the loss refuses Rows.
	PerRow() string
	// Check returns one sentence that names the field of the loss which is not allowed, or the
	// head that the network lacks. s is a network that Layout accepts.
	Check(s *Spec) error
}

// Column describes numbers of each row.
type Column struct {
	Name  string
	Width int // numbers of a row
	Doc   string
}

// need returns a head.
func (s *Spec) need(head string) (*Head, error) {
	i := s.Head(head)
	if i < 0 {
		return nil, fmt.Errorf("heads: none is called %q, which the loss needs", head)
	}
	return &s.Heads[i], nil
}
