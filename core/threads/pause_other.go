//go:build !amd64

package threads

func pause(int32) {}
