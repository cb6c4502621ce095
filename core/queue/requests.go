package queue

import (
	"fmt"
	"slices"
)

// Requests is the prediction queue: the environments that wait for an action, in the order in which
// they came.
type Requests struct {
	bound int
	list  []int
}

// NewRequests returns an empty queue with at most bound requests inside.
func NewRequests(bound int) *Requests { return &Requests{bound: bound} }

// Join appends environment i, which does not wait yet.
func (r *Requests) Join(i int) { r.list = append(r.list, i) }

// Len returns the number of requests inside.
func (r *Requests) Len() int { return min(len(r.list), r.bound) }

// Take appends the first requests inside, at most `most`, to `to`, and removes them.
func (r *Requests) Take(most int, to []int) []int {
	n := min(most, r.Len())
	to = append(to, r.list[:n]...)
	r.list = r.list[:copy(r.list, r.list[n:])]
	return to
}

// Remove removes environment i, if it waits.
func (r *Requests) Remove(i int) {
	if k := slices.Index(r.list, i); k >= 0 {
		r.list = slices.Delete(r.list, k, k+1)
	}
}

// List returns a copy of all requests, those that wait to get in included.
func (r *Requests) List() []int { return append([]int{}, r.list...) }

// Set replaces the requests by those of a List of envs environments.
func (r *Requests) Set(list []int) { r.list = append(r.list[:0], list...) }

// CheckList refuses a list that no queue of envs environments has.
func CheckList(list []int, envs int) error {
	seen := make([]bool, envs)
	for _, i := range list {
		if i < 0 || i >= envs || seen[i] {
			return fmt.Errorf("requests: %v, must be different environments, 0 to %d", list, envs-1)
		}
		seen[i] = true
	}
	return nil
}
