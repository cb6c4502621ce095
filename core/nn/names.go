package nn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file has the names of parameters in layouts, files and get_parameters. Names and order
// (trunks, then heads) are those of Stable-Baselines3, so weights can be exchanged by name.
//
//	DQN, QNetwork                    one head "q"
//	  features_extractor.cnn.0         its convolutions; the ReLUs between have numbers, too
//	  features_extractor.linear.0      the dense layer after them
//	  q_net.0, q_net.2 ...             the layers of an mlp, then the head
//	QRDQN, QuantileNetwork           one head "q" with quantiles (sb3-contrib)
//	  quantile_net.0 ...               in the place of q_net.0 ...
//	a head "q" with taus             not in Stable-Baselines3
//	  quantile_net.embedding           the layer that reads cosines, after the trunk's layers but the last
//	  quantile_net.0, quantile_net.2   after convolutions: the last layer of the trunk, the head
//	a dueling head "q"               not in Stable-Baselines3
//	  features_extractor.cnn.0 ...     the convolutions, or q_net.0 ...: the mlp but its last layer
//	  q_net.value.0, q_net.value.2     the value's stream: its last layer of the trunk, its head
//	  q_net.advantage.0 ...            the advantages' stream
//	ActorCriticPolicy                a head "v" and the heads of the policy: "pi", "mu" or both
//	  features_extractor.cnn.0 ...     the convolutions of all heads, or of the policy alone
//	  vf_features_extractor.cnn.0 ...  the convolutions of "v" (share_features_extractor=False)
//	  mlp_extractor.policy_net.0 ...   the mlp of the policy
//	  mlp_extractor.value_net.0 ...    the mlp of "v"
//	  mlp_extractor.shared_net.0 ...   the mlp of all heads (until version 1.7)
//	  action_net, value_net            the heads "pi" and "v", or "mu" and "v"
//	  mu_net                           "mu" of a policy that has "pi", too (not in Stable-Baselines3)
//	a noisy network                  not in Stable-Baselines3: after all layers, for each dense one
//	  q_net.0.weight_sigma ...         the factors of the noise of q_net.0.weight
//	  q_net.0.bias_sigma ...           and of q_net.0.bias
//	  log_std                          of a network with "mu": after the heads, in theirs before all
//
// A head "q" with atoms has the names of DQN. Another head x is called x_net, and its own mlp
// mlp_extractor.x_net. The numbers are indices in PyTorch's Sequential, in which a layer and its
// activation are two modules. With a normalisation between them, layer k has index 3k and its
// normalisation 3k+1.

// isQ reports whether the network is a Q-network.
func (s *Spec) isQ() bool { return len(s.Heads) == 1 && s.Heads[0].Name == "q" }

// qNet is the prefix of the names of a Q-network.
func (s *Spec) qNet() string {
	if s.Heads[0].Quantiles+s.Heads[0].Taus > 0 {
		return "quantile_net"
	}
	return "q_net"
}

// users returns the names of the heads on a trunk.
func (s *Spec) users(trunk int) (names []string) {
	for _, h := range s.Heads {
		if h.Trunk == trunk {
			names = append(names, h.Name)
		}
	}
	return names
}

// extractor is the prefix of a trunk of convolutions.
func (s *Spec) extractor(trunk int) string {
	switch users := s.users(trunk); {
	case len(s.Trunks) == 1 || ofPolicy(users):
		return "features_extractor"
	case len(users) == 1 && users[0] == "v":
		return "vf_features_extractor"
	default:
		return strings.Join(users, "_") + "_features_extractor"
	}
}

// ofPolicy reports whether all of the heads are those of a policy.
func ofPolicy(heads []string) bool {
	return !slices.ContainsFunc(heads, func(h string) bool { return h != "pi" && h != "mu" })
}

// logStdName is the name of the parameter of a network with a head "mu".
const logStdName = "log_std"

// modules returns the number of modules for each layer of the trunk in a Sequential.
func (t *Trunk) modules() int {
	if t.Norm != "" {
		return 3
	}
	return 2
}

// normName names the normalisation after a layer: the next module.
func normName(layer string) string {
	dot := strings.LastIndexByte(layer, '.') + 1
	index, _ := strconv.Atoi(layer[dot:])
	return layer[:dot] + strconv.Itoa(index+1)
}

// convName names convolution k of a trunk.
func (s *Spec) convName(trunk, k int) string {
	return fmt.Sprintf("%s.cnn.%d", s.extractor(trunk), s.Trunks[trunk].modules()*k)
}

// featuresName names the dense layer after the convolutions of a trunk.
func (s *Spec) featuresName(trunk int) string { return s.extractor(trunk) + ".linear.0" }

// hiddenName names layer k of an mlp.
func (s *Spec) hiddenName(trunk, k int) string {
	var net string
	index := s.Trunks[trunk].modules() * k
	switch users := s.users(trunk); {
	case s.isQ():
		return fmt.Sprintf("%s.%d", s.qNet(), index)
	case ofPolicy(users):
		net = "policy_net"
	case len(s.Trunks) == 1 && len(users) > 1:
		net = "shared_net"
	case len(users) == 1 && users[0] == "v":
		net = "value_net"
	default:
		net = strings.Join(users, "_") + "_net"
	}
	return fmt.Sprintf("mlp_extractor.%s.%d", net, index)
}

// streams are the streams of a dueling head, in the order of their layers.
var streams = [2]string{"value", "advantage"}

// streamName names layer k of a stream of a dueling head.
func (s *Spec) streamName(head, stream, k int) string {
	return fmt.Sprintf("%s.%s.%d", s.netOf(head), streams[stream], s.Trunks[s.Heads[head].Trunk].modules()*k)
}

// embeddingName names the layer that computes the embeddings of a head's taus.
func (s *Spec) embeddingName(head int) string { return s.netOf(head) + ".embedding" }

// topName names the last layer of the trunk of a head with taus, which the trunk calls name.
func (s *Spec) topName(head int, name string) string {
	if s.Trunks[s.Heads[head].Trunk].Arch == "mlp" {
		return name
	}
	return s.netOf(head) + ".0"
}

// netOf is the prefix of the names of a head's own layers.
func (s *Spec) netOf(head int) string {
	if s.isQ() {
		return s.qNet()
	}
	return s.Heads[head].Name + "_net"
}

// headName names a head.
func (s *Spec) headName(i int) string {
	switch h := s.Heads[i]; {
	case s.isQ() && s.Trunks[h.Trunk].Arch == "mlp":
		return s.hiddenName(h.Trunk, len(s.Trunks[h.Trunk].hidden()))
	case s.isQ() && h.Taus > 0:
		return s.qNet() + ".2"
	case s.isQ():
		return s.qNet() + ".0"
	case h.Name == "pi", h.Name == "mu" && s.Head("pi") < 0:
		return "action_net"
	case h.Name == "v":
		return "value_net"
	default:
		return h.Name + "_net"
	}
}
