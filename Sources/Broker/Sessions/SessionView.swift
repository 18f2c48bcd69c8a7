/// A session as its owner may see it (the session object in openapi.yaml).
///
/// The view never contains tokens (SEC-52).
package struct SessionView: Sendable {
    package var handle: SessionHandle
    package var provider: ProviderName
    package var client: ClientName
    package var subject: String
    package var identity: [(name: String, value: JSONValue)]
    package var unverified: [(name: String, value: JSONValue)]
    package var scope: [String]
    package var createdAt: WallTime
    package var lastUsedAt: WallTime
    package var idleExpiresAt: WallTime
    package var expiresAt: WallTime
    package var tokensExpireAt: WallTime?
    package var refreshable: Bool
    package var device: String?
    /// The strength, methods and time of the user's sign-in.
    package var signIn: SignInFacts
    package var binding: SessionBinding?
    /// The session's parent, kind and name; nil for a top-level session.
    package var child: ChildFacts?
    /// The presence key, if the session has one and it was opened for this view.
    package var presence: SessionPresence?
    /// The session's version, which grows with each step-up and with its presence key.
    ///
    /// Of two views, the one with the higher version is newer.
    package var version: Int64
}

extension SessionView {
    /// Creates the owner's view from a row and its opened facts.
    package init(row: SessionRow, facts: SessionFacts, binding: SessionBinding?) {
        self.init(
            handle: row.handle, provider: facts.provider, client: facts.client, subject: facts.subject,
            identity: facts.identity, unverified: facts.unverified, scope: facts.scope,
            createdAt: facts.oldCreatedAt ?? row.createdAt, lastUsedAt: row.shownLastUse,
            idleExpiresAt: min(row.idleExpiresAt, row.expiresAt), expiresAt: row.expiresAt,
            tokensExpireAt: row.tokenExpiresAt, refreshable: row.refreshable, device: facts.device,
            signIn: facts.signIn, binding: binding, child: facts.child, version: row.version)
    }

    /// Returns a child's view within its parent's limits, with the state of its parent's tokens.
    func within(_ parent: SessionRow) -> SessionView {
        var view = self
        view.expiresAt = min(expiresAt, parent.expiresAt)
        view.idleExpiresAt = min(idleExpiresAt, parent.idleExpiresAt, parent.expiresAt)
        view.tokensExpireAt = parent.tokenExpiresAt
        view.refreshable = parent.refreshable
        return view
    }
}
