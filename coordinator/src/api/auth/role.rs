//! Roles of callers.

/// Role of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May open sessions.
    Client,
    /// May administer the cluster, and open sessions.
    Admin,
    /// May call as a node of the cluster.
    Peer,
}

impl Role {
    /// Returns true if a caller of this role may do what needs the other role.
    pub(super) const fn allows(self, needed: Self) -> bool {
        matches!(
            (self, needed),
            (Self::Admin, Self::Admin | Self::Client)
                | (Self::Client, Self::Client)
                | (Self::Peer, Self::Peer)
        )
    }

    /// Returns the name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Admin => "admin",
            Self::Peer => "peer",
        }
    }
}
