"""Arrays that other processes of a host read where they lie; `memory` has how."""
