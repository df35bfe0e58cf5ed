//! What an operator asks, and the answers.
