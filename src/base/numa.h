// Memory placement on machines with several NUMA nodes.
#pragma once

namespace lacuna {

/// Number of NUMA nodes whose memory this process may use; 1 if unknown.
int num_memory_nodes();

/// Interleaves future pages over all usable nodes, so that no node serves all readers of a matrix. Applies to
/// pages first touched by the calling thread and by threads that it starts later. Does nothing with one node.
/// Throws InputError if the system refuses.
void interleave_memory();

}  // namespace lacuna
