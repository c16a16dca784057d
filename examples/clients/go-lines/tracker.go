package lines

import "sync"

// Tracker has the positions of the partitions that a program consumes, for libraries that do not track them.
type Tracker struct {
	lock      sync.Mutex
	positions map[Partition]Offset
}

// Of returns the partition of a position.
func (p Position) Of() Partition { return Partition{p.Topic, p.Partition} }

// Set begins to consume a partition, or seeks.
func (t *Tracker) Set(position Position) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.positions == nil {
		t.positions = map[Partition]Offset{}
	}
	t.positions[position.Of()] = position.Offset
}

// Move sets the position of a partition that is consumed, and returns whether it is.
func (t *Tracker) Move(position Position) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	_, consumed := t.positions[position.Of()]
	if consumed {
		t.positions[position.Of()] = position.Offset
	}
	return consumed
}

// Forget ends to consume a partition.
func (t *Tracker) Forget(partition Partition) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.positions, partition)
}

// Known returns the positions that are numbers.
func (t *Tracker) Known() []Position {
	t.lock.Lock()
	defer t.lock.Unlock()
	known := []Position{}
	for partition, offset := range t.positions {
		if offset >= 0 {
			known = append(known, Position{partition.Topic, partition.Partition, offset})
		}
	}
	return known
}
