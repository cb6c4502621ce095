package nntest

import (
	"math"

	"github.com/paceline-rl/paceline/core/env"
	"github.com/paceline-rl/paceline/core/nn"
	"github.com/paceline-rl/paceline/core/rng"
)

// This file computes networks and losses from their definitions, in float64.

// naive returns the outputs of every layer, [rows, Out], with a row for each of taus where the
// layer has taus. Images are planar.
func naive(s nn.Spec, p *nn.Params, obs []byte, rows int, taus []float32) (layers []nn.Layer, outputs [][]float64) {
	layers, _ = s.Layers()
	x := make([]float64, rows*s.Obs.Len())
	for i := range x {
		if s.Obs.DType == env.Uint8 {
			x[i] = float64(obs[i])
			if len(s.Obs.Shape) == 3 && !s.RawImages {
				x[i] /= 255
			}
		} else {
			x[i] = float64(math.Float32frombits(uint32(obs[4*i]) | uint32(obs[4*i+1])<<8 | uint32(obs[4*i+2])<<16 | uint32(obs[4*i+3])<<24))
		}
	}
	for i := range layers {
		in := x
		if from := layers[i].From; from >= 0 {
			in = outputs[from]
		}
		in = naiveInput(&layers[i], in, outputs, taus)
		outputs = append(outputs, naiveLayer(&layers[i], p, in, layers[i].Rows(rows)))
	}
	return layers, outputs
}

// naiveOutputs returns the outputs of the heads.
func naiveOutputs(s nn.Spec, p *nn.Params, obs []byte, rows int) [][]float64 {
	points := naivePoints(s, p, obs, rows, middleTaus(s, rows))
	for i := range s.Heads {
		points[i] = naiveMeans(&s.Heads[i], points[i])
	}
	return points
}

// naiveLargest returns the largest output of every unit with a rectifier, by layer, and the names
// of the layers.
func naiveLargest(s nn.Spec, p *nn.Params, obs []byte, rows int) (largest [][]float64, names []string) {
	layers, outputs := naive(s, p, obs, rows, middleTaus(s, rows))
	for i := range layers {
		l := &layers[i]
		if l.Activation != nn.ReLU {
			continue
		}
		of := make([]float64, l.Units())
		for k, v := range outputs[i] {
			unit := k % l.Out / (l.Out / len(of))
			of[unit] = max(of[unit], v)
		}
		largest = append(largest, of)
		if l.Norm != nil { // the layer before it has the units
			l = &layers[i-1]
		}
		names = append(names, l.Name)
	}
	return largest, names
}

func naiveLayer(l *nn.Layer, p *nn.Params, x []float64, rows int) []float64 {
	w, b := Named(p, l.Name+".weight"), Named(p, l.Name+".bias")
	y := make([]float64, rows*l.Out)
	for i := range rows {
		in, out := x[i*l.In:(i+1)*l.In], y[i*l.Out:(i+1)*l.Out]
		if c := l.Conv; c != nil {
			k := c.Kernel
			_, _, top, left := c.Padded()
			for o := range out {
				ch, r, col := o/(c.OutH()*c.OutW()), o/c.OutW()%c.OutH(), o%c.OutW()
				sum := float64(b[ch])
				for ic := range c.InC {
					for kr := range k {
						for kc := range k {
							y, x := r*c.Stride+kr-top, col*c.Stride+kc-left
							if y >= 0 && y < c.InH && x >= 0 && x < c.InW {
								sum += float64(w[((ch*c.InC+ic)*k+kr)*k+kc]) * in[(ic*c.InH+y)*c.InW+x]
							}
						}
					}
				}
				out[o] = sum
			}
		} else if l.Norm != nil {
			naiveNorm(l.Norm, out, in, w, b)
		} else {
			for o := range out {
				out[o] = float64(b[o])
				for j := range in {
					out[o] += float64(w[o*l.In+j]) * in[j]
				}
			}
		}
		for o := range out {
			switch l.Activation {
			case nn.ReLU:
				out[o] = max(out[o], 0)
			case nn.Tanh:
				out[o] = math.Tanh(out[o])
			}
		}
	}
	return y
}

// naiveNorm normalises a row [channel, position].
func naiveNorm(l *nn.Norm, y, x []float64, scale, bias []float32) {
	positions := l.Positions
	for p := range positions {
		var group []int
		for k := range x {
			if l.All || k%positions == p {
				group = append(group, k)
			}
		}
		mean, variance := 0.0, 0.0
		for _, k := range group {
			mean += x[k] / float64(len(group))
		}
		for _, k := range group {
			variance += (x[k] - mean) * (x[k] - mean) / float64(len(group))
		}
		for j, k := range group {
			y[k] = (x[k]-mean)/math.Sqrt(variance+float64(l.Eps))*float64(scale[j]) + float64(bias[j])
		}
		if l.All {
			return
		}
	}
}

func naiveLoss(s nn.Spec, loss nn.Loss, p *nn.Params, b *nn.Batch) (sum float64) {
	s = nn.LearnerSpec(s, loss)
	outputs := naivePoints(s, p, b.Obs, len(b.Obs)/s.Obs.Bytes(), tausOf(loss, b))
	switch loss := loss.(type) {
	case nn.CrossEntropy, nn.QuantileHuber, nn.ImplicitHuber:
		sum, _ = naiveDistributionLoss(&s.Heads[0], loss, outputs[0], b)
	case nn.TD:
		width, total := s.Heads[0].Out, 0.0
		for i, a := range b.Actions {
			d, w := outputs[0][i*width+int(a)]-float64(b.Columns[0][i]), 1.0
			if len(b.Columns) > 1 {
				w = float64(b.Columns[1][i])
			}
			switch {
			case loss.Importance == nn.ImportanceError:
				d, w = w*d, 1
				total++
			case loss.Importance != "":
				total++
			default:
				total += w
			}
			switch {
			case loss.Kind == "squared":
				sum += w * d * d
			case math.Abs(d) < 1:
				sum += w * d * d / 2
			default:
				sum += w * (math.Abs(d) - 0.5)
			}
		}
		if loss.Reduction == "mean" {
			sum /= total
		}
		if loss.Scale != 0 {
			sum *= loss.Scale
		}
	case nn.PPO:
		return naiveActorCritic(s, nn.ActorCritic{EntropyCoef: loss.EntropyCoef, ValueCoef: loss.ValueCoef}, &loss, p, outputs, b)
	case nn.ActorCritic:
		return naiveActorCritic(s, loss, nil, p, outputs, b)
	}
	return sum
}

// slope is a finite difference of naiveLoss for one parameter.
type slope struct {
	part  nn.Param
	index int // in the flat array
	value float64
}

func slopes(s nn.Spec, loss nn.Loss, p *nn.Params, b *nn.Batch, r *rng.Stream) (all []slope) {
	for _, part := range p.Layout.Params {
		checks := min(part.Size, 12) // every element of the tiny networks
		if s.Trunks[0].Arch != "mlp" {
			checks = min(part.Size, 3)
		}
		for k := range checks {
			i := part.Offset + k
			if part.Size > checks {
				i = part.Offset + r.Intn(part.Size)
			}
			was := p.Host()[i]
			const h = 1e-5
			p.Host()[i] = was + h
			hi, up := p.Host()[i], naiveLoss(s, loss, p, b)
			p.Host()[i] = was - h
			lo, down := p.Host()[i], naiveLoss(s, loss, p, b)
			p.Host()[i] = was
			all = append(all, slope{part, i, (up - down) / (float64(hi) - float64(lo))})
		}
	}
	return all
}

// logPi returns the logarithms of the probabilities of logits.
func logPi(logits []float64) (logs []float64) {
	norm := 0.0
	for _, x := range logits {
		norm += math.Exp(x)
	}
	for _, x := range logits {
		logs = append(logs, x-math.Log(norm))
	}
	return logs
}

// regularised returns the factor and the logarithm of a probability in the terms of a branch, from
// the exact logarithm.
func regularised(loss nn.ActorCritic, log float64) (factor, regular float64) {
	pi := math.Exp(log)
	switch loss.Regulariser {
	case nn.RegulariserPlus:
		return pi + loss.LogEps, math.Log(pi + loss.LogEps)
	case nn.RegulariserMax:
		return pi, math.Log(math.Max(pi, loss.LogEps))
	}
	return pi, log
}

// naivePolicy returns the log-probability of the action of row i and the entropy of its
// distribution.
func naivePolicy(s nn.Spec, loss nn.ActorCritic, p *nn.Params, outputs [][]float64, b *nn.Batch, i int) (logProb, entropy float64) {
	branches, gaussians := s.Policy()
	if pi := s.Head("pi"); pi >= 0 {
		width := s.Heads[pi].Out
		at := i * width
		for k, choices := range branches {
			chosen := at + int(b.Actions[i*len(branches)+k])
			var logits []float64
			for a := at; a < at+int(choices); a++ {
				if b.Masks != nil && b.Masks[a] == 0 {
					continue
				}
				if a == chosen {
					chosen = len(logits)
				}
				logits = append(logits, outputs[pi][a])
			}
			logs := logPi(logits)
			for _, x := range logs {
				factor, log := regularised(loss, x)
				entropy -= float64(factor * log)
			}
			_, log := regularised(loss, logs[chosen])
			logProb += log
			at += int(choices)
		}
	}
	for k := range gaussians {
		std := math.Exp(float64(Named(p, "log_std")[k]))
		z := (float64(b.Continuous[i*gaussians+k]) - outputs[s.Head("mu")][i*gaussians+k]) / std
		logProb += -z*z/2 - math.Log(std*math.Sqrt(2*math.Pi))
		entropy += math.Log(2*math.Pi*math.E*std*std) / 2
	}
	return logProb, entropy
}

// naiveActorCritic returns the loss of actor-critic, or of PPO if clipped is not nil.
func naiveActorCritic(s nn.Spec, loss nn.ActorCritic, clipped *nn.PPO, p *nn.Params, outputs [][]float64, b *nn.Batch) (sum float64) {
	total, values := 0.0, outputs[s.Head("v")]
	for i, v := range values {
		of := func(column int) float64 { return float64(b.Columns[column][i]) }
		logProb, entropy := naivePolicy(s, loss, p, outputs, b, i)
		policy, squared := -of(0)*logProb, (v-of(1))*(v-of(1))
		if clipped != nil {
			ratio := math.Exp(logProb - of(3))
			within := math.Max(1-of(4), math.Min(1+of(4), ratio))
			policy = -math.Min(ratio*of(0), within*of(0))
			d := of(5) + math.Max(-of(6), math.Min(of(6), v-of(5))) - of(1)
			if !clipped.Largest || d*d > squared {
				squared = d * d
			}
		}
		sum += of(2) * (policy - loss.EntropyCoef*entropy + loss.ValueCoef*squared)
		total += of(2)
	}
	return sum / total
}
