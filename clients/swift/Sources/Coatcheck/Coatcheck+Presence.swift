import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Proofs that the user confirmed a call.
///
/// The presence key asks for a face, a finger or the device's code, and then signs the call.
extension Coatcheck {
    /// Registers the presence key for the session.
    ///
    /// Makes a key if necessary, and asks the user once.
    ///
    /// Call it soon after a sign-in or a ``stepUp(acrValues:maxAge:)``. A session accepts one presence key in its life. If
    /// the key is lost, ``CoatcheckError/presenceKeyLost`` is thrown, and the next session can register another.
    @discardableResult
    public func registerPresenceKey() async throws -> Session {
        guard let presenceKey else { throw CoatcheckError.noPresenceKey }
        let known = try await presenceKey.publicKey()
        if let registered = try kept().lastSession?.presence, registered.jkt != known?.thumbprint {
            throw CoatcheckError.presenceKeyLost
        }
        if known == nil { _ = try await presenceKey.make() }
        // The first attempt skips the prompt. If the sign-in is too old, the broker refuses before the user is asked.
        return try await remembered(
            Call(method: "PUT", path: "/v1/session/presence-key", evidence: .proof, presence: .registers))
    }

    /// Whether this device has a presence key, and a session that accepts its proof for this call.
    func canAsk(for call: Call) -> Bool {
        guard presenceKey != nil, key != nil, let credentials = try? call.credentials ?? kept() else { return false }
        guard credentials.session != nil, let known = credentials.lastSession else { return credentials.session != nil }
        return known.binding != nil && (known.presence != nil || call.presence == .registers)
    }

    /// Asks the user to confirm a call that needs presence, and returns whether the user was asked.
    ///
    /// Only one prompt is open at a time.
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
            // Fetch a fresh nonce. Otherwise the nonce could expire while the user answers the prompt.
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
            // The stored key can no longer sign, for example because another finger was enrolled. Only a registration
            // replaces the key.
            guard call.presence == .registers else { throw CoatcheckError.presenceKeyLost }
            return try await proof.token(by: key, try await key.make())
        } catch CoatcheckError.cancelled {
            // A refusal by the user applies to all waiting calls.
            prompts.refuse(CoatcheckError.cancelled)
            throw CoatcheckError.cancelled
        }
    }

    /// Whether the nonce remains valid for at least one minute.
    ///
    /// The whole lifetime of a nonce is five minutes.
    private var hasYoungNonce: Bool {
        guard nonce != nil, let nonceReceived else { return false }
        return (0..<240).contains(now().timeIntervalSince(nonceReceived))
    }
}
