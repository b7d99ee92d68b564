package model

import "time"

// SetCreated lets the aggregations that are not in seen yet begin at the scenario's time instead of the clock's: those
// of the container that is sampled. Those of the others never expire, since a scenario does not sample them.
func SetCreated(cluster ClusterState, sampled string, at time.Time, seen map[*AggregateContainerState]bool) {
	for key, state := range cluster.(*clusterState).aggregateStateMap {
		if !seen[state] {
			seen[state] = true
			state.CreationTime = at
			if key.ContainerName() != sampled {
				state.CreationTime = at.AddDate(10000, 0, 0)
			}
		}
	}
}
