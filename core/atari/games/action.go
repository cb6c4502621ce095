package games

import (
	"fmt"
	"strings"

	"github.com/paceline-rl/paceline/core/nearest"
)

// Action is a player's action for a frame: a direction of the stick with or without the button, or
// the console's RESET switch. The numbers are ALE's.
type Action int

const (
	Noop Action = iota
	Fire
	Up
	Right
	Left
	Down
	UpRight
	UpLeft
	DownRight
	DownLeft
	UpFire
	RightFire
	LeftFire
	DownFire
	UpRightFire
	UpLeftFire
	DownRightFire
	DownLeftFire

	NumActions = 18 // the joystick's actions

	Reset Action = 40 // holds the RESET switch; only at the start of games
)

var actionNames = [NumActions]string{
	"NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT",
	"UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE",
}

// String returns ale-py's name, such as "UPRIGHTFIRE".
func (a Action) String() string {
	switch {
	case a >= 0 && a < NumActions:
		return actionNames[a]
	case a == Reset:
		return "RESET"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// ParseAction returns the action with this name, in upper case.
func ParseAction(name string) (Action, error) {
	for a, n := range actionNames {
		if n == name {
			return Action(a), nil
		}
	}
	if name == "RESET" {
		return Reset, nil
	}
	known := append(actionNames[:], "RESET")
	if near := nearest.Names(name, known, 2, strings.ToUpper); near != nil {
		return 0, fmt.Errorf("action %q is not known; did you mean %s?", name, strings.Join(near, " or "))
	}
	return 0, fmt.Errorf("action %q is not known; known actions: %s", name, strings.Join(known, ", "))
}

// parseActions reads a list such as "NOOP*60 FIRE".
func parseActions(text string) ([]Action, error) {
	var list []Action
	for _, word := range strings.Fields(text) {
		name, times, repeated := strings.Cut(word, "*")
		n := 1
		if repeated {
			var err error
			if n, err = parseInt(times, 1, 1000); err != nil {
				return nil, fmt.Errorf("actions: %q: %w", word, err)
			}
		}
		a, err := ParseAction(name)
		if err != nil {
			return nil, err
		}
		for range n {
			list = append(list, a)
		}
	}
	if list == nil {
		return nil, fmt.Errorf("actions: none given, must be one or more")
	}
	return list, nil
}
