package scaling

import "time"

// Panicking says whether a decider is in panic mode.
func Panicking(decider UniScaler) bool {
	return !decider.(*autoscaler).panicTime.IsZero()
}

// StartAt lets a decider that begins in panic mode do so at the scenario's time instead of the clock's.
func StartAt(decider UniScaler, at time.Time) {
	if Panicking(decider) {
		decider.(*autoscaler).panicTime = at
	}
}
