package classic

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/paceline-rl/paceline/core/env"
)

// drawn renders a task and checks the size of the image.
func drawn(t *testing.T, e env.Env) (rgb []byte, width, height int) {
	t.Helper()
	rgb, width, height, err := e.(env.Renderer).Render()
	if want := map[string][2]int{"CartPole-v1": {600, 400}, "Acrobot-v1": {500, 500}, "MountainCar-v0": {600, 400}, "Pendulum-v1": {500, 500}, "MountainCarContinuous-v0": {600, 400}}[e.Spec().ID]; err != nil || want != [2]int{width, height} || len(rgb) != 3*width*height {
		t.Fatalf("%s: %d bytes, %dx%d, %v, want %v", e.Spec().ID, len(rgb), width, height, err, want)
	}
	return rgb, width, height
}

func colour(rgb []byte, width, x, y int) paint { return paint(rgb[3*(y*width+x):]) }

// Images equal Gymnasium's of the same states (testdata/render.py), except for pixels on the edges
// of slanted and round shapes. The margins are the measured differences and half as much again. A
// shape that is a pixel thicker, or missing, exceeds them clearly.
func TestImagesEqualGymnasium(t *testing.T) {
	list, err := os.ReadFile("testdata/images.csv")
	if err != nil {
		t.Fatal(err)
	}
	margins := map[string]struct {
		mean float64 // of the absolute differences of all channels
		far  int     // pixels with a channel more than 64 off
	}{"CartPole-v1": {.03, 45}, "Acrobot-v1": {.07, 200}, "MountainCar-v0": {.26, 25}, "Pendulum-v1": {.04, 26}, "MountainCarContinuous-v0": {.26, 25}}
	for _, x := range tasks() {
		id := x.env.Spec().ID
		file, err := os.Open("testdata/" + id + ".png")
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := png.Decode(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		top := 0
		for line := range strings.Lines(string(list)) {
			fields := strings.Split(strings.TrimSpace(line), ",")
			if fields[0] != id {
				continue
			}
			for i, f := range fields[1:] {
				if x.task.state[i], err = strconv.ParseFloat(f, 64); err != nil {
					t.Fatal(err)
				}
			}
			rgb, width, height := drawn(t, x.env)
			mean, far := differences(rgb, width, height, theirs, top)
			t.Logf("%s %v: mean difference %.4f, %d pixels far off", id, x.task.state, mean, far)
			if m := margins[id]; mean > m.mean || far > m.far {
				t.Errorf("%s %v: mean difference %.4f, %d pixels far off, want at most %v", id, x.task.state, mean, far, m)
			}
			top += height
		}
		if top != theirs.Bounds().Dy() || top == 0 {
			t.Errorf("%s: %d rows compared of %d", id, top, theirs.Bounds().Dy())
		}
	}
}

// differences compares an image with the rows of theirs that start at top.
func differences(rgb []byte, width, height int, theirs image.Image, top int) (mean float64, far int) {
	for y := range height {
		for x := range width {
			r, g, b, _ := theirs.At(x, top+y).RGBA()
			largest := 0.0
			ours := colour(rgb, width, x, y)
			for i, channel := range []uint32{r, g, b} {
				d := math.Abs(float64(ours[i]) - float64(channel>>8))
				largest = max(largest, d)
				mean += d
			}
			if largest > 64 {
				far++
			}
		}
	}
	return mean / float64(len(rgb)), far
}

// The middles of all shapes have the right colours, in states with a simple geometry.
func TestColoursOfShapes(t *testing.T) {
	white := paint{255, 255, 255}
	type pixel struct {
		x, y int
		want paint
	}
	for k, pixels := range [][]pixel{
		{ // the cart in the middle, the pole upright
			{300, 292, violet}, {300, 200, wood}, {295, 200, wood}, {305, 200, wood}, {294, 200, white}, {306, 200, white},
			{300, 172, wood}, {300, 171, white}, {275, 284, black}, {325, 314, black}, {274, 284, white}, {326, 314, white},
			{0, 299, black}, {599, 299, black}, {0, 298, white}, {0, 300, white},
		},
		{ // both links hang: 113.6 pixels each, their middles in columns 249 and 250
			{250, 249, yellow}, {250, 363, yellow}, {250, 300, cyan}, {250, 420, cyan}, {250, 476, cyan}, {250, 478, white},
			{240, 300, cyan}, {236, 300, white}, {263, 300, white}, {0, 136, black}, {499, 136, black}, {0, 135, white}, {0, 137, white},
		},
		{ // the car at 0, where the ground is at 0.55*333.3 and the car turned by 1 rad
			{566, 15, white}, {566, 67, black}, {566, 69, white}, {570, 22, yellow}, {570, 16, white}, {388, 199, black}, {405, 197, grey}, {394, 214, grey}, {400, 232, white},
		},
		{ // the rod points up
			{250, 249, black}, {250, 200, red}, {250, 140, red}, {250, 126, red}, {250, 122, white}, {240, 200, red}, {236, 200, white}, {250, 258, red}, {250, 263, white},
		},
		{ // as MountainCar, with the flag's pole at 1.65*333.3
			{550, 15, white}, {550, 45, black}, {548, 45, white}, {554, 25, yellow}, {388, 199, black}, {405, 197, grey}, {394, 214, grey}, {400, 232, white},
		},
	} {
		x := tasks()[k]
		rgb, width, _ := drawn(t, x.env)
		for _, p := range pixels {
			if got := colour(rgb, width, p.x, p.y); got != p.want {
				t.Errorf("%s: (%d, %d) is %v, want %v", x.env.Spec().ID, p.x, p.y, got, p.want)
			}
		}
	}
}

// The middle of each row of the pole is where the angle puts it. Truncated corners move the middle
// by up to a pixel, to the left and down, and the edges of the row by half a pixel.
func TestPoleLeans(t *testing.T) {
	c := NewCartPole()
	for _, angle := range []float64{-0.2, -0.05, 0, 0.1, 0.2} {
		for _, position := range []float64{-1.5, 0, 0.7} {
			c.state = [4]float64{position, 0, angle, 0}
			rgb, width, _ := drawn(t, c)
			for y := 190; y < 280; y++ {
				sum, count := 0.0, 0.0
				for x := range width {
					if colour(rgb, width, x, y) == wood {
						sum, count = sum+float64(x), count+1
					}
				}
				want := 300 + 125*position + math.Tan(angle)*(400-1-107.5-float64(y))
				if got := sum / count; count < 8 || count > 12 || math.Abs(got-want) > 1.5 {
					t.Fatalf("position %g, angle %g, row %d: %g pixels around %g, want 8 to 12 around %g", position, angle, y, count, got, want)
				}
			}
		}
	}
}

// An image depends only on the state and belongs to the caller. Drawing changes no state.
func TestRenderChangesNoState(t *testing.T) {
	for _, x := range tasks() {
		id := x.env.Spec().ID
		obs := make([]byte, x.env.Spec().Obs.Bytes())
		unreset, _, _ := drawn(t, x.env)
		if err := x.env.Reset(obs); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, _, err := x.step(0, obs); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := x.env.Save()
		first, _, _ := drawn(t, x.env)
		if bytes.Equal(first, unreset) {
			t.Errorf("%s: the image does not follow the state", id)
		}
		want := bytes.Clone(first)
		clear(first)
		if again, _, _ := drawn(t, x.env); !bytes.Equal(again, want) {
			t.Errorf("%s: a second image of the same state differs", id)
		}
		if after, _ := x.env.Save(); !bytes.Equal(before, after) {
			t.Errorf("%s: drawing changed the state", id)
		}
	}
}

// Shapes are cut off at the edges of the image, and every state can be drawn.
func TestRenderDrawsEveryState(t *testing.T) {
	for _, x := range tasks() {
		for _, s := range []float64{2.4, -2.6, 1e9, -1e9, 1e300, math.Inf(1), math.Inf(-1), math.NaN()} {
			for i := range x.numbers {
				x.task.state = [4]float64{}
				x.task.state[i] = s
				drawn(t, x.env)
			}
		}
	}
	c := NewCartPole()
	c.state[0] = -1e300
	rgb, width, height := drawn(t, c)
	for y := range height {
		for x := range width {
			want := paint{255, 255, 255}
			if y == 299 {
				want = black
			}
			if got := colour(rgb, width, x, y); got != want {
				t.Fatalf("(%d, %d) is %v, want %v: only the rail is visible", x, y, got, want)
			}
		}
	}
}

func BenchmarkRender(b *testing.B) {
	for _, x := range tasks() {
		b.Run(x.env.Spec().ID, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _, _ = x.env.(env.Renderer).Render()
			}
		})
	}
}
