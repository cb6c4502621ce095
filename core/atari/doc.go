// Package atari is the Atari 2600 as users of the Arcade Learning Environment know
// it: a console with a cartridge, actions in, images, rewards and lives out, the
// same frame by frame as ale-py 0.12.1.
//
//	machine/   the hardware, C99 headers that stand alone
//	games/     what is known of the 108 cartridges, and the rules for rewards
//	screen/    colours, and the way to what a network sees
//	console.go a Console: frames, sticky actions, numbers; reset.go how episodes
//	           begin; controls.go sticks, paddles and switches; view.go images;
//	           state.go saving; rom.go finding cartridges
//
// What holds:
//
//   - Everything was written from hardware documents and from what ale-py can be
//     seen to do. Where it differs from the hardware, it is right here: published
//     results were made on it.
//   - A Console's state is plain data without pointers: copying saves it, copying
//     back restores it. A ROM never changes and is shared.
//   - A Console belongs to one goroutine at a time; different ones share nothing.
//   - ROMs are the user's. They are found on the machine, never part of this module.
package atari
