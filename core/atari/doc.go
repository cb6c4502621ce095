// Package atari is the Atari 2600 of the Arcade Learning Environment: a console with a cartridge
// that takes actions and returns images, rewards and lives. Every frame equals that of ale-py
// 0.12.1.
//
//	machine/    the hardware, C99 headers without dependencies
//	games/      facts about the 108 cartridges, and the rules for rewards
//	screen/     colours and observations
//	env.go      Env, the environment of a recipe (recipe.go); wrapped.go: the recipe sb3;
//	            evaluate.go: what evaluations change
//	console.go  Console: frames, sticky actions, counters; reset.go: starts of episodes;
//	            controls.go: sticks, paddles and switches; view.go: images;
//	            state.go: saving; rom.go: finding cartridges
//
// Invariants:
//
//   - The package was written from hardware documents and from the observable behaviour of
//     ale-py. Where ale-py differs from the hardware, the package follows ale-py, because
//     published results were made with it.
//   - The state of a Console is plain data without pointers. Copying the state saves it, and
//     copying it back restores it. A ROM never changes and is shared.
//   - One goroutine at a time uses a Console. Different Consoles share no mutable data.
//   - ROMs are the user's files. They are found on the machine and never part of this module.
package atari
