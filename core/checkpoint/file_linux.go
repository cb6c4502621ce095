package checkpoint

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblock keeps Open from waiting if the file has become a pipe since Stat.
const nonblock = syscall.O_NONBLOCK

// Temporary names do not contain the file's name, which may be as long as the file system allows. A
// process holds a lock on the temporary file that it writes. A killed process leaves its temporary
// file unlocked.
const (
	tempPrefix = ".paceline-"
	tempSuffix = ".tmp"
)

func tempName(dir string) string {
	return fmt.Sprintf("%s%s%016x%s", dir, tempPrefix, rand.Uint64(), tempSuffix)
}

// openNew opens a new file in dir ("" or with a slash at its end) for writing. If the file system
// can, the file has no name and disappears with the process. Otherwise temp is its path. Errors
// name path.
func openNew(dir, path string, perm fs.FileMode) (f *os.File, temp string, err error) {
	fd, err := unix.Open(dir+".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, uint32(perm))
	if err == nil {
		// linkTemp needs /proc.
		if _, err := os.Stat(descriptor(fd)); err == nil {
			lock(fd)
			return os.NewFile(uintptr(fd), path), "", nil
		}
		unix.Close(fd)
	}
	return openNamed(dir, path, perm)
}

// openNamed opens a new file with a temporary name.
func openNamed(dir, path string, perm fs.FileMode) (f *os.File, temp string, err error) {
	for range 100 {
		temp = tempName(dir)
		fd, err := unix.Open(temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, uint32(perm))
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			return nil, "", &os.PathError{Op: "create", Path: path, Err: err}
		}
		// removeAbandoned of another process may have locked or removed the file before.
		var st unix.Stat_t
		if lock(fd) == unix.EWOULDBLOCK || unix.Fstat(fd, &st) == nil && st.Nlink == 0 {
			unix.Close(fd)
			continue
		}
		return os.NewFile(uintptr(fd), path), temp, nil
	}
	return nil, "", &os.PathError{Op: "create", Path: path, Err: unix.EEXIST}
}

// linkTemp links a file without a name to a temporary name in target's folder. It does not link to
// target itself, because linkat cannot replace a file.
func linkTemp(f *os.File, target string) (temp string, err error) {
	dir, _ := filepath.Split(target)
	for range 100 {
		temp = tempName(dir)
		err = unix.Linkat(unix.AT_FDCWD, descriptor(int(f.Fd())), unix.AT_FDCWD, temp, unix.AT_SYMLINK_FOLLOW)
		if err == nil {
			return temp, nil
		}
		if err != unix.EEXIST {
			break
		}
	}
	return "", &os.PathError{Op: "link", Path: f.Name(), Err: err}
}

func descriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// lock fails if another process holds the lock, or if the file system has no locks. In the latter
// case removeAbandoned cannot lock the file either and does not remove it.
func lock(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }

// removeAbandoned removes the temporary files in dir that no process writes. It ignores errors,
// because they do not concern the file that is being saved.
func removeAbandoned(dir string) {
	d, err := os.Open(dir + ".")
	if err != nil {
		return
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix) {
				removeUnlocked(dir + name)
			}
		}
		if err != nil {
			return
		}
	}
}

func removeUnlocked(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && lock(fd) == nil {
		os.Remove(path)
	}
}
