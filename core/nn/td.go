package nn

import "fmt"

// TD is the loss of Q-learning, on a head "q". The error of row i is d = Q(s_i, a_i) - target_i.
type TD struct {
	// Kind is "huber" or "squared". huber is d²/2 where |d| < 1, else |d| - 1/2, as PyTorch's
	// smooth_l1_loss; its gradient is the error clipped to ±1 of Mnih et al. 2015. squared is d²
	// without a half, as PyTorch's mse_loss.
	Kind string
	// Reduction over the batch: "mean" (PyTorch, Keras) or "sum" (Mnih et al.).
	Reduction string
	// Weighted adds a column of weights for the sum and the mean; weight 0 is a row that is no step.
	Weighted bool
	// Scale multiplies the loss; 0 stands for 1.
	Scale float64
}

// Columns returns "target" and, if the loss is Weighted, "weight".
func (l TD) Columns() []Column {
	list := []Column{{"target", "target of Q(s, a)"}}
	if l.Weighted {
		list = append(list, Column{"weight", "weight of the row; 0: the row is no step"})
	}
	return list
}

// Parts returns nothing: the loss is one number.
func (l TD) Parts() []string { return nil }

func (l TD) Check(s *Spec) error {
	if l.Kind != "huber" && l.Kind != "squared" {
		return fmt.Errorf("loss.kind: %q, must be \"huber\" or \"squared\"", l.Kind)
	}
	if l.Reduction != "mean" && l.Reduction != "sum" {
		return fmt.Errorf("loss.reduction: %q, must be \"mean\" or \"sum\"", l.Reduction)
	}
	if !(l.Scale >= 0 && l.Scale <= 1e6) {
		return fmt.Errorf("loss.scale: %v, must be 0 to 1e6", l.Scale)
	}
	_, err := s.need("q")
	return err
}
