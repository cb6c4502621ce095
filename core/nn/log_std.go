package nn

// LogStd returns the parameter log_std in host memory; nil for a network without a head "mu". It
// reads the set as Host does.
func (p *Params) LogStd() []float32 {
	if last := p.Layout.Params[len(p.Layout.Params)-1]; last.Name == "log_std" {
		return p.Piece(last)
	}
	return nil
}
