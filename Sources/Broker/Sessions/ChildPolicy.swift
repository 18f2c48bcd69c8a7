/// A client's rules for child sessions of one kind.
package struct ChildPolicy: Sendable, Equatable {
    package var lifetimes: SessionLifetimes
    /// The upstreams that the relay may call for these children.
    package var upstreams: Set<UpstreamName>
    /// The backends that may ask about these children.
    package var backends: Set<BackendName>
    /// The web origins that a session may be handed over to, and the `SameSite` attribute of the resulting cookie.
    ///
    /// Both apply to the kind `web` only.
    package var origins: Set<String> = []
    package var sameSite = SameSitePolicy.lax

    package init(
        lifetimes: SessionLifetimes = SessionLifetimes(), upstreams: Set<UpstreamName> = [],
        backends: Set<BackendName> = []
    ) {
        self.lifetimes = lifetimes
        self.upstreams = upstreams
        self.backends = backends
    }
}
