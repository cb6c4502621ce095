package nn

import (
	"fmt"
	"strconv"
	"strings"
)

// What parameters are called in layouts, files and get_parameters: as in
// Stable-Baselines3, and in its order (trunks, then heads), so that weights go
// there and back by name. Nothing else of this package knows these names.
//
//	DQN, QNetwork                    one head "q"
//	  features_extractor.cnn.0         its convolutions, counted with the ReLUs between
//	  features_extractor.linear.0      the dense layer behind them
//	  q_net.0, q_net.2 ...             an mlp's layers, then the head
//	ActorCriticPolicy                heads "pi" and "v"
//	  features_extractor.cnn.0 ...     one trunk of convolutions under both, or that under
//	                                   "pi" where "v" has one of its own
//	  vf_features_extractor.cnn.0 ...  that under "v" (share_features_extractor=False)
//	  mlp_extractor.policy_net.0 ...   an mlp under "pi"
//	  mlp_extractor.value_net.0 ...    an mlp under "v"
//	  mlp_extractor.shared_net.0 ...   an mlp under both (until version 1.7)
//	  action_net, value_net            the heads
//
// A head of another name x is called x_net, and an mlp of its own
// mlp_extractor.x_net. The numbers are places in PyTorch's Sequential: a layer and
// its activation. A normalisation has a place between them, so that layer k of a
// trunk with norm is number 3k, and its norm 3k+1.

// isQ reports whether the network is that of a DQN.
func (s *Spec) isQ() bool { return len(s.Heads) == 1 && s.Heads[0].Name == "q" }

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
	switch user := strings.Join(s.users(trunk), "_"); {
	case len(s.Trunks) == 1 || user == "pi":
		return "features_extractor"
	case user == "v":
		return "vf_features_extractor"
	default:
		return user + "_features_extractor"
	}
}

// places returns how many modules of a Sequential each layer of the trunk is.
func (t *Trunk) places() int {
	if t.Norm != "" {
		return 3
	}
	return 2
}

// normName names the normalisation behind a layer: the next module.
func normName(layer string) string {
	dot := strings.LastIndexByte(layer, '.') + 1
	place, _ := strconv.Atoi(layer[dot:])
	return layer[:dot] + strconv.Itoa(place+1)
}

// convName names convolution k of a trunk.
func (s *Spec) convName(trunk, k int) string {
	return fmt.Sprintf("%s.cnn.%d", s.extractor(trunk), s.Trunks[trunk].places()*k)
}

// featuresName names the dense layer behind the convolutions of a trunk.
func (s *Spec) featuresName(trunk int) string { return s.extractor(trunk) + ".linear.0" }

// hiddenName names layer k of an mlp.
func (s *Spec) hiddenName(trunk, k int) string {
	var net string
	place := s.Trunks[trunk].places() * k
	switch users := s.users(trunk); {
	case s.isQ():
		return fmt.Sprintf("q_net.%d", place)
	case len(s.Trunks) == 1 && len(users) > 1:
		net = "shared_net"
	case len(users) == 1 && users[0] == "pi":
		net = "policy_net"
	case len(users) == 1 && users[0] == "v":
		net = "value_net"
	default:
		net = strings.Join(users, "_") + "_net"
	}
	return fmt.Sprintf("mlp_extractor.%s.%d", net, place)
}

// headName names a head.
func (s *Spec) headName(i int) string {
	switch h := s.Heads[i]; {
	case s.isQ() && s.Trunks[h.Trunk].Arch == "mlp":
		return s.hiddenName(h.Trunk, len(s.Trunks[h.Trunk].hidden()))
	case s.isQ():
		return "q_net.0"
	case h.Name == "pi":
		return "action_net"
	case h.Name == "v":
		return "value_net"
	default:
		return h.Name + "_net"
	}
}
