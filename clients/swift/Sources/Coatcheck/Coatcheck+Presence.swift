import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The user's presence: a key that asks for a face, a finger or the device's code signs the very request.
extension Coatcheck {
    /// Registers the presence key for the session, soon after a sign-in or a ``stepUp(acrValues:maxAge:)``; makes one where there
    /// is none, and asks the user once.
    ///
    /// A session takes one in its life. Where the key is gone, ``CoatcheckError/presenceKeyLost`` is thrown, and the next session
    /// takes another.
    @discardableResult
    public func registerPresenceKey() async throws -> Session {
        guard let presenceKey else { throw CoatcheckError.noPresenceKey }
        let known = try await presenceKey.publicKey()
        if let registered = try kept().lastSession?.presence, registered.jkt != known?.thumbprint {
            throw CoatcheckError.presenceKeyLost
        }
        if known == nil { _ = try await presenceKey.make() }
        // Without the user at first: a sign-in that is too old is refused before.
        return try await remembered(
            Call(method: "PUT", path: "/v1/session/presence-key", evidence: .proof, presence: .registers))
    }

    /// Whether there is a key that the user could be asked by for a call.
    func canAsk(for call: Call) -> Bool {
        guard presenceKey != nil, key != nil, let credentials = try? call.credentials ?? kept() else { return false }
        guard credentials.session != nil, let known = credentials.lastSession else { return credentials.session != nil }
        return known.binding != nil && (known.presence != nil || call.presence == .registers)
    }

    /// Asks the user for a call that needs it, after those that were asked for others; returns whether it did.
    func asks(for call: Call, _ mending: inout Mending) async throws -> Bool {
        if call.presence == .shown { mending.needsPresence = true }
        guard mending.needsPresence, mending.presence == nil else { return false }
        guard let presenceKey, key != nil else { throw CoatcheckError.noPresenceKey }
        let credentials = try call.credentials ?? kept()
        guard let session = credentials.session, canAsk(for: call) else { return false }
        mending.presence = try await prompts.taken {
            try await self.presence(for: call, of: credentials, session, by: presenceKey)
        }
        return true
    }

    private func presence(
        for call: Call, of credentials: Credentials, _ session: String, by key: any ProofKey
    ) async throws -> String {
        if !hasYoungNonce {
            // The user is not asked for a proof that is too old when it is signed.
            _ = try await self.call(
                Call(
                    method: "GET", path: "/v1/session", evidence: .proof, credentials: call.credentials,
                    asksForNonce: true))
            guard hasYoungNonce else { throw CoatcheckError.unreachable }
        }
        guard let known = try await key.publicKey() else { throw CoatcheckError.presenceKeyLost }
        if let registered = credentials.lastSession?.presence, registered.jkt != known.thumbprint {
            throw CoatcheckError.presenceKeyLost
        }
        let proof = Proof(
            method: call.method, address: try request(call, of: credentials).provedAddress, session: session,
            nonce: nonce, time: now())
        do { return try await proof.token(by: key, known) } catch CoatcheckError.keyLost {
            // One of a session before this signs no more, and registers as little.
            guard call.presence == .registers else { throw CoatcheckError.presenceKeyLost }
            return try await proof.token(by: key, try await key.make())
        } catch CoatcheckError.cancelled {
            // A no is one to all that wait.
            prompts.refuse(CoatcheckError.cancelled)
            throw CoatcheckError.cancelled
        }
    }

    /// Whether the nonce leaves the user a minute: it is good for five.
    private var hasYoungNonce: Bool {
        guard nonce != nil, let nonceReceived else { return false }
        return (0..<240).contains(now().timeIntervalSince(nonceReceived))
    }
}
