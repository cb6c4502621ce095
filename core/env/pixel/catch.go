package pixel

import "github.com/paceline-rl/paceline/core/env"

// Catch is Catch-v0, on 12x12 cells of 7 pixels. A ball falls straight down, one cell a step, from
// a random column of the top row. The paddle starts in the middle. After 11 steps the ball is in
// the bottom row and the episode terminates. The reward is 1 if the paddle catches the ball and -1
// otherwise. The best policy always scores 1, a random policy about -0.5.
type Catch struct {
	game
	column, row int // the ball's cell
}

const catchCells = 12

// NewCatch returns a Catch, not yet reset.
func NewCatch() *Catch {
	c := &Catch{game: newGame("Catch-v0", catchCells, 7, 0, 0.9)}
	c.startEpisode() // Restore refuses a state without a paddle on the board
	c.active = false
	return c
}

// Reset drops the next ball.
func (c *Catch) Reset(obs []byte) error {
	c.startEpisode()
	c.column, c.row = c.stream.Intn(catchCells), 0
	c.draw(c.column, c.row, 1, ball)
	c.show(obs)
	return nil
}

// Step moves the paddle, then the ball.
func (c *Catch) Step(action int32, obs []byte) (float32, env.End, error) {
	if !c.active {
		return 0, 0, errNotActive
	}
	c.draw(c.column, c.row, 1, floor)
	c.movePaddle(action)
	c.row++
	c.draw(c.column, c.row, 1, ball)
	c.show(obs)

	if c.row < catchCells-1 {
		return 0, c.finish(false), nil
	}
	if c.caught(c.column) {
		return 1, c.finish(true), nil
	}
	return -1, c.finish(true), nil
}

// Save returns the whole state.
func (c *Catch) Save() ([]byte, error) { return c.save(byte(c.column), byte(c.row)) }

// Restore loads a state from Save. After an error the game is unchanged.
func (c *Catch) Restore(state []byte) error {
	own, err := c.restore(state, 2, func(own []byte) bool {
		// A ball in the last row has ended the episode.
		return own[0] < catchCells && (own[1] < catchCells-1 || own[1] == catchCells-1 && state[1] == 0)
	})
	if err == nil {
		c.column, c.row = int(own[0]), int(own[1])
	}
	return err
}
