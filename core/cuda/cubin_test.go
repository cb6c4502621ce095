package cuda

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// kernelArgs has the argument struct of each kernel. P stands for a precision.
var kernelArgs = map[string]any{
	"conv_forward_P": ConvForwardArgs{}, "conv_forward_bytes_P": ConvForwardArgs{},
	"conv_weight_gradient_P": ConvWeightGradientArgs{}, "conv_weight_gradient_bytes_P": ConvWeightGradientArgs{},
	"conv_input_gradient_P": ConvInputGradientArgs{},
	"dense_forward_P":       DenseForwardArgs{}, "dense_weight_gradient_P": DenseWeightGradientArgs{}, "dense_input_gradient_P": DenseInputGradientArgs{},
	"dense_forward_sum": DenseForwardSumArgs{}, "weight_gradient_sum": WeightGradientSumArgs{},
	"tanh_forward": ElementsArgs{}, "tanh_backward": ElementsArgs{}, "relu_backward": ElementsArgs{}, "add": ElementsArgs{},
	"average": ElementsArgs{}, "convert_bytes": ElementsArgs{}, "select": SelectArgs{}, "gather": GatherArgs{}, "pick": PickArgs{},
	"norm_rows_forward": NormArgs{}, "norm_rows_input_gradient": NormArgs{}, "norm_rows_parameter_gradient": NormArgs{},
	"norm_positions_forward": NormArgs{}, "norm_positions_input_gradient": NormArgs{}, "norm_positions_parameter_gradient": NormArgs{},
	"argmax": ArgmaxArgs{}, "td_targets": TDTargetsArgs{}, "td_loss": TDLossArgs{}, "actor_critic": ActorCriticArgs{},
	"actor_critic_product": ActorCriticProductArgs{},
	"sum_squares":          SumSquaresArgs{}, "advance": AdvanceArgs{},
	"rmsprop": OptimizerArgs{}, "adam": OptimizerArgs{}, "radam": OptimizerArgs{}, "adagrad": OptimizerArgs{},
}

// compiledKernels returns kernelArgs with the kernels of every precision.
func compiledKernels() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for name, args := range kernelArgs {
		base, ok := strings.CutSuffix(name, "P")
		if !ok {
			all[name] = reflect.TypeOf(args)
			continue
		}
		for _, p := range precisions {
			all[base+p.name] = reflect.TypeOf(args)
		}
	}
	return all
}

// Attributes of .nv.info: the second byte of a record.
const (
	nvMaxThreads = 0x05
	nvFrameSize  = 0x11
	nvParamSize  = 0x19
	nvRegisters  = 0x2F
)

// compiled is a cubin's description of a kernel.
type compiled struct{ registers, shared, params, threads, frame int }

// records calls f for each record of .nv.info.
func records(data []byte, f func(attribute byte, half uint16, value []byte)) {
	for len(data) >= 4 {
		format, attribute, half := data[0], data[1], binary.LittleEndian.Uint16(data[2:])
		if data = data[4:]; format != 4 { // the record itself has the value
			f(attribute, half, nil)
			continue
		}
		f(attribute, 0, data[:half])
		data = data[half:]
	}
}

func readCubin(t *testing.T, code []byte) map[string]compiled {
	t.Helper()
	code[20], code[21] = 1, 0 // debug/elf refuses NVIDIA's ELF version
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]compiled{}
	for _, s := range file.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
			if !strings.HasPrefix(name, "$") { // a $ begins the names of the compiler's helper functions
				all[name] = compiled{}
			}
		}
	}
	for _, s := range file.Sections {
		name, _ := strings.CutPrefix(s.Name, ".nv.shared.")
		if k, ok := all[name]; ok {
			k.shared = int(s.Size)
			all[name] = k
		}
	}
	for _, s := range file.Sections {
		name, ok := strings.CutPrefix(s.Name, ".nv.info")
		if !ok {
			continue
		}
		data, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimPrefix(name, ".")
		records(data, func(attribute byte, half uint16, value []byte) {
			of := name
			if attribute == nvFrameSize || attribute == nvRegisters { // these records name the function by its symbol
				of = symbols[binary.LittleEndian.Uint32(value)-1].Name
			}
			k, ok := all[of]
			if !ok {
				return
			}
			switch attribute {
			case nvFrameSize:
				k.frame = int(binary.LittleEndian.Uint32(value[4:]))
			case nvRegisters:
				k.registers = int(binary.LittleEndian.Uint32(value[4:]))
			case nvMaxThreads:
				k.threads = int(binary.LittleEndian.Uint32(value))
			case nvParamSize:
				k.params = int(half)
			default:
				return
			}
			all[of] = k
		})
	}
	return all
}

// The loop over a chunk's products is fully unrolled: if the compiler assumes that a lane may be
// negative, it adds one more iteration. Shared memory is aligned for its four-word loads.
func TestPTXUnrollsTheProducts(t *testing.T) {
	archive := openKernels(t)
	f, err := archive.Open("compute_80.ptx")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	// Products of 16 x 8 elements: 2 x 4 of a tile; tf32 needs two for the k of a chunk, bf16 one.
	products := map[string]int{"fp32": 0, "tf32": 16, "bf16": 8}
	kernels := 0
	for _, body := range strings.Split(string(text), ".entry ")[1:] {
		name, body, _ := strings.Cut(body, "(")
		want, ok := products[name[strings.LastIndex(name, "_")+1:]]
		if !ok {
			continue
		}
		kernels++
		if n := strings.Count(body, "mma.sync"); n != want {
			t.Errorf("%s: %d mma.sync instructions, must be %d", name, n, want)
		}
		if strings.Contains(body, "ld.shared.v4") && !strings.Contains(body, ".shared .align 16") {
			t.Errorf("%s: shared memory is not aligned for loads of four words", name)
		}
	}
	if kernels < 24 {
		t.Errorf("%d kernels with matrix products, must be at least 24", kernels)
	}
}

// The machine code for every chip fits the launches and the chip's limits per block: 64K registers
// and 48 KB of shared memory. No kernel spills registers, except for 16 bytes of the two
// kernels of actor-critic.
func TestCubinsFitTheChips(t *testing.T) {
	archive := openKernels(t)
	want, chips := compiledKernels(), 0
	for _, f := range archive.File {
		chip, ok := strings.CutSuffix(f.Name, ".cubin")
		if !ok {
			continue
		}
		chips++
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		code, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all := readCubin(t, code)
		var list strings.Builder
		for name, typ := range want {
			k, ok := all[name]
			if chip == "sm_75" && (strings.HasSuffix(name, "_tf32") || strings.HasSuffix(name, "_bf16")) {
				if ok {
					t.Errorf("%s: %s, which it must not have", chip, name)
				}
				continue
			}
			switch {
			case !ok:
				t.Errorf("%s: no %s", chip, name)
				continue
			case k.params != int(typ.Size()):
				t.Errorf("%s: %s takes %d bytes, must be %d", chip, name, k.params, typ.Size())
			case k.threads < 32 || k.threads%32 != 0 || k.registers < 1 || k.registers*k.threads > 64<<10 || k.registers > 255:
				t.Errorf("%s: %s has %d threads of %d registers", chip, name, k.threads, k.registers)
			case k.shared > 48<<10:
				t.Errorf("%s: %s has %d bytes of shared memory", chip, name, k.shared)
			case k.frame > 0 && (k.frame > 16 || !strings.HasPrefix(name, "actor_critic")): // two of the double sums
				t.Errorf("%s: %s has %d bytes of local memory a thread, must have none", chip, name, k.frame)
			}
			if strings.HasPrefix(name, "conv") || strings.HasPrefix(name, "dense") {
				fmt.Fprintf(&list, "\n  %-32s %3d registers, %5d bytes shared, %4d of arguments", name, k.registers, k.shared, k.params)
			}
		}
		for name := range all {
			if _, ok := want[name]; !ok {
				t.Errorf("%s: %s is not in the list of this test", chip, name)
			}
		}
		t.Logf("%s: %d kernels%s", chip, len(all), list.String())
	}
	if chips < 6 {
		t.Errorf("%d chips, must be 6", chips)
	}
}

// openKernels opens the archive of compile.py. The test is left out where there is none, or where
// it is of other sources than those of this checkout.
func openKernels(t *testing.T) *zip.ReadCloser {
	t.Helper()
	archive, err := zip.OpenReader("kernels.zip")
	if os.IsNotExist(err) {
		t.Skip("left out: no kernels.zip; python core/cuda/compile.py makes it")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { archive.Close() })
	names, err := filepath.Glob("kernels/*.cu*")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(h, "\n%s %d\n%s", filepath.Base(name), len(text), text)
	}
	var digest []byte
	if f, err := archive.Open("sources"); err == nil {
		defer f.Close()
		if digest, err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
	}
	if string(digest) != hex.EncodeToString(h.Sum(nil)) {
		t.Skip("left out: kernels.zip is of other sources; python core/cuda/compile.py makes it anew")
	}
	return archive
}
