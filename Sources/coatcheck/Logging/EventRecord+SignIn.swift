import Broker

/// The records of sign-ins, step-ups, registrations and proofs.
extension EventRecord {
    // MARK: Logins

    static func loginStarted(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        counted("logins_started", provider, client).logged(.debug, "login started", provider, client)
    }

    static func loginRefused(
        _ provider: ProviderName?, _ client: ClientName?, _ code: ProblemCode, _ detail: String
    ) -> EventRecord {
        counted(
            "logins",
            [("provider", provider?.text ?? "-"), ("client", client?.text ?? "-"), ("result", code.rawValue)]
        ).logged(.notice, "login refused", provider, client, [("code", code.rawValue), ("detail", detail)])
    }

    static func issuerUnchecked(_ provider: ProviderName) -> EventRecord {
        var record = counted("issuers_unchecked", [("provider", provider.text)]).logged(
            .warning, "callbacks name an issuer that cannot be checked: set `callback_issuer`", provider, nil)
        record.isOnceFor = provider
        return record
    }

    static func loginBurned(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        counted("logins", provider, client, [("result", "burned")])
            .logged(.warning, "login finished by somebody else and burned", provider, client)
    }

    static func loginSucceeded(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle
    ) -> EventRecord {
        counted("logins", provider, client, [("result", "succeeded")])
            .logged(.info, "login succeeded", provider, client, session: session)
    }

    static func steppedUp(_ provider: ProviderName, _ client: ClientName, _ session: SessionHandle) -> EventRecord {
        counted("logins", provider, client, [("result", "stepped_up")])
            .logged(.info, "session stepped up", provider, client, session: session)
    }

    static func sidUnusable(_ provider: ProviderName, _ client: ClientName, _ session: SessionHandle) -> EventRecord {
        uncounted.logged(
            .warning,
            "the id_token's `sid` is not a text of at most 4 KiB, so back-channel log-outs by `sid` have no effect",
            provider, client, session: session)
    }

    // MARK: Exchanges and registrations

    static func exchangeReplayed(_ provider: ProviderName) -> EventRecord {
        counted("exchanges_replayed", [("provider", provider.text)])
            .logged(.info, "exchange answered again", provider, nil)
    }

    static func exchangeFailed(
        _ provider: ProviderName, _ client: ClientName, _ failure: ProviderFailure
    ) -> EventRecord {
        let reason = ("reason", failure.shortDescription)
        return counted("exchanges_failed", provider, client, [reason])
            .logged(.warning, "exchange failed", provider, client, [reason, ("detail", failure.detail)])
    }

    static func imported(
        _ provider: ProviderName, _ client: ClientName, _ way: ImportWay, _ result: ImportResult
    ) -> EventRecord {
        counted("moved", provider, client, [("way", way.rawValue), ("result", result.rawValue)])
    }

    static func oldSystemAnswered(
        _ provider: ProviderName, _ client: ClientName, _ result: OldSystemResult, _ detail: String?
    ) -> EventRecord {
        let record = counted("old_system_answers", provider, client, [("result", result.rawValue)])
        guard let detail else { return record }
        let message =
            result == .unavailable
            ? "the old system's answer is unusable or missing" : "the old system's session is left behind"
        return record.logged(.warning, message, provider, client, [("detail", detail)])
    }

    static func importUnproven(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        uncounted.logged(
            .error,
            "the provider refuses an imported token, and no import of this client has been granted yet; is this the client id "
                + "that the phones' tokens belong to?", provider, client)
    }

    static func registrationStarted(_ provider: ProviderName, _ client: ClientName) -> EventRecord {
        counted("registrations_started", provider, client)
            .logged(.info, "registration started", provider, client)
    }

    static func registrationFinished(
        _ provider: ProviderName, _ client: ClientName, _ result: String
    ) -> EventRecord {
        counted("registrations", provider, client, [("result", result)])
            .logged(.info, "registration finished", provider, client, [("result", result)])
    }

    // MARK: Proofs

    static func proofJudged(_ provider: ProviderName, _ client: ClientName, _ result: String) -> EventRecord {
        let record = counted("proofs", provider, client, [("result", result)])
        // A thief of a session token would send another key's proof.
        guard result == ProofRefusal.key.result else { return record }
        return record.logged(.warning, "a session token was sent with another key's proof", provider, client)
    }

    static func presenceJudged(_ provider: ProviderName, _ client: ClientName, _ result: String) -> EventRecord {
        let record = counted("presence_proofs", provider, client, [("result", result)])
        guard result == ProofRefusal.key.result else { return record }
        return record.logged(.warning, "a call was sent with another presence key's proof", provider, client)
    }

    static func presenceKeyChanged(
        _ provider: ProviderName, _ client: ClientName, _ session: SessionHandle
    ) -> EventRecord {
        counted("presence_keys", provider, client).logged(
            .info, "presence key registered", provider, client,
            [("event", "session.presence_key_changed"), ("session", session.text)])
    }
}
