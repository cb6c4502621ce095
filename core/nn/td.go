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
	// Importance adds a column of importance weights, and says what a weight w multiplies. The mean
	// is that of the rows, whatever their weights are. "": there is no such column. With huber the
	// values differ:
	//
	//	value                loss of a row   its gradient
	//	ImportanceLoss       w huber(d)      w clip(d)
	//	ImportanceGradient   w d²/2          clip(w d)
	//	ImportanceError      huber(w d)      w clip(w d)
	//
	// ImportanceLoss has the step of Schaul et al. 2016. ImportanceGradient is dqn_zoo's, which clips
	// the gradient of w d²/2; it needs huber. With squared ImportanceError is (w d)². No method
	// has ImportanceError: tests compare the other two with it.
	Importance string
	// Scale multiplies the loss; 0 stands for 1.
	Scale float64
}

// Values of Importance.
const (
	ImportanceLoss     = "loss"
	ImportanceGradient = "gradient"
	ImportanceError    = "error"
)

// Columns returns "target" and, if the loss is Weighted or has Importance, "weight".
func (l TD) Columns(*Spec) []Column {
	list := []Column{{"target", 1, "target of Q(s, a)"}}
	switch {
	case l.Weighted:
		list = append(list, Column{"weight", 1, "weight of the row; 0: the row is no step"})
	case l.Importance != "":
		list = append(list, importanceColumn)
	}
	return list
}

var importanceColumn = Column{"weight", 1, "importance weight of the row"}

// Parts returns nothing: the loss is one number.
func (l TD) Parts() []string { return nil }

// PerRow says that Report.Rows holds |d|. The priorities of all published formulas are functions of
// it: |d| clipped to 1, its Huber loss, its rank.
func (l TD) PerRow() string { return "magnitude of the error, neither clipped nor weighted" }

func (l TD) Check(s *Spec) error {
	if l.Kind != "huber" && l.Kind != "squared" {
		return fmt.Errorf("loss.kind: %q, must be \"huber\" or \"squared\"", l.Kind)
	}
	switch l.Importance {
	case "", ImportanceLoss, ImportanceError:
	case ImportanceGradient:
		if l.Kind != "huber" {
			return fmt.Errorf("loss.importance: %q, must be another where loss.kind is %q, whose gradient is not clipped", l.Importance, l.Kind)
		}
	default:
		return fmt.Errorf("loss.importance: %q, must be \"\", %q, %q or %q", l.Importance, ImportanceLoss, ImportanceGradient, ImportanceError)
	}
	if l.Importance != "" && l.Weighted {
		return fmt.Errorf("loss.importance: %q, must be \"\" for a loss that is weighted", l.Importance)
	}
	if err := checkReduction(l.Reduction); err != nil {
		return err
	}
	if !(l.Scale >= 0 && l.Scale <= 1e6) {
		return fmt.Errorf("loss.scale: %v, must be 0 to 1e6", l.Scale)
	}
	h, err := s.need("q")
	if err == nil && h.Taus > 0 {
		err = fmt.Errorf("heads: \"q\" has taus, must have none for this loss")
	}
	if err == nil && h.Atoms+h.Quantiles > 0 {
		err = fmt.Errorf("heads: \"q\" has %d atoms and %d quantiles, must have none for this loss", h.Atoms, h.Quantiles)
	}
	return err
}

func checkReduction(reduction string) error {
	if reduction != "mean" && reduction != "sum" {
		return fmt.Errorf("loss.reduction: %q, must be \"mean\" or \"sum\"", reduction)
	}
	return nil
}
