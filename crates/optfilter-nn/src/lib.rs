//! Network weights as the state.
