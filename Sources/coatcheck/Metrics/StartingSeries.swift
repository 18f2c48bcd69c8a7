import Broker
import BrokerProviders
import BrokerRelay

/// Creates the counters whose labels are known beforehand, at zero.
///
/// Otherwise, the first event would create the counter with the value 1, and an alert on an increase would miss this event.
/// Further calls add new counters and leave the existing counters unchanged.
enum StartingSeries {
    /// The largest number of series of one metric that are created beforehand.
    ///
    /// Each other series is created by its first event.
    static let limit = MetricsRegistry.seriesLimit / 2

    private typealias Labels = [(String, String)]

    /// Creates the series of a configuration.
    static func register(_ configuration: Configuration, _ metrics: MetricsRegistry) {
        let clients = configuration.providers.flatMap { provider in
            provider.clients.map { (provider: provider.name.text, client: $0.settings.profile.name.text) }
        }
        let store = if case .sqlite = configuration.store { "sqlite" } else { "postgresql" }
        metrics.gauge("coatcheck_build_info", [("version", Version.text), ("store", store)]).set(1.0)
        register(
            providers: configuration.providers.map(\.name.text), clients: clients,
            upstreams: configuration.upstreams.compactMap { $0.settings?.name.text }, metrics)
        for provider in configuration.providers {
            for client in provider.clients.map(\.settings.profile) {
                Maker(metrics: metrics).counters(
                    "child_sessions", [[("provider", provider.name.text), ("client", client.name.text)]],
                    client.children.keys.sorted().map { [("kind", $0.text)] })
                registerImports(provider.name, client, metrics)
            }
        }
    }

    /// Creates the series of a client whose apps may move their sessions.
    static func registerImports(_ provider: ProviderName, _ client: ClientProfile, _ metrics: MetricsRegistry) {
        let (make, owner) = (Maker(metrics: metrics), [("provider", provider.text), ("client", client.name.text)])
        var ways: [ImportWay] = client.importTokens ? [.tokens] : []
        if let moveIn = client.moveIn {
            ways += moveIn.cookie == nil ? [.legacy] : [.legacy, .cookie]
            make.counters("old_system_answers", [owner], OldSystemResult.allCases.map { [("result", $0.rawValue)] })
        }
        make.counters(
            "moved", [owner],
            ImportResult.allCases.flatMap { result in
                ways.map { [("way", $0.rawValue), ("result", result.rawValue)] }
            })
    }

    /// Creates the series of the given providers, clients and upstreams.
    static func register(
        providers: [String], clients: [(provider: String, client: String)], upstreams: [String],
        _ metrics: MetricsRegistry
    ) {
        let make = Maker(metrics: metrics)
        let owners: [Labels] = clients.map { [("provider", $0.provider), ("client", $0.client)] }
        for name in ["logins_started", "registrations_started"] + refreshCounters { make.counters(name, owners) }
        make.counters("access_tokens_handed_out", owners)
        make.counters("proofs", owners, (["accepted"] + ProofRefusal.allCases.map(\.result)).map { [("result", $0)] })
        make.counters("presence_keys", owners)
        make.counters(
            "presence_proofs", owners, (["accepted"] + PresenceRefusal.results).map { [("result", $0)] })
        make.counters("logins", owners + [[("provider", "-"), ("client", "-")]], logins.map { [("result", $0)] })
        make.counters("exchanges_failed", owners, failures.map { [("reason", $0)] })
        make.counters("registrations", owners, registrations.map { [("result", $0)] })
        make.counters("refreshes", owners, refreshes)

        let named: [Labels] = providers.map { [("provider", $0)] }
        for name in ["exchanges_replayed", "issuers_unchecked"] { make.counters(name, named) }
        make.counters("revocations", named, (["done", "unsupported", "shared"] + failures).map { [("result", $0)] })
        make.counters("provider_session_ends", named, (["done"] + failures).map { [("result", $0)] })
        make.counters("logout_tokens", named, (["accepted", "replayed"] + failures).map { [("result", $0)] })

        make.counters("certificate_reload_failures", [[]])
        make.counters("sessions_ended", EndReason.allCases.filter { $0.shown == $0 }.map { [("reason", $0.rawValue)] })
        make.counters("admin_actions", actions.map { [("action", $0)] })
        make.counters("store_failures", operations.map { [("operation", $0)] })
        make.counters(
            "rows_not_opened", SealedKind.allCases.map { [("kind", $0.rawValue)] },
            ["unknown_key", "integrity"].map { [("reason", $0)] })
        make.counters(
            "relay_answers", upstreams.map { [("upstream", $0)] },
            ["5xx", "none", "2xx", "3xx", "4xx", "other"].map { [("result", $0)] })
        for upstream in upstreams {
            _ = metrics.histogram("coatcheck_relay_duration_seconds", [("upstream", upstream)])
        }
    }

    private struct Maker {
        let metrics: MetricsRegistry

        /// Creates a counter for each combination.
        ///
        /// The counters with the first of the further labels are created for all owners, then the counters with the second
        /// label, and so on. The limit therefore leaves out the last labels.
        func counters(_ name: String, _ owners: [Labels], _ further: [Labels] = [[]]) {
            let label = "coatcheck_\(name)_total"
            for more in further {
                for owner in owners where metrics.seriesCount(of: label) < limit {
                    _ = metrics.counter(label, owner + more)
                }
            }
        }
    }

    private static let refreshCounters = ["refresh_waits", "refreshes_shared", "refreshed_id_tokens_unverified"]
    private static let failures = ["not_sent", "retryable", "rejected", "unusable", "lost", "identity_rejected"]
    private static let registrations = [
        "registered", "bad_attributes", "user_exists", "email_domain_denied", "state_invalid",
    ]
    private static let actions = ["end_session", "end_sessions", "reseal_keys", "backup"]

    /// The results of logins for which an alert may be needed at the first occurrence.
    private static let logins: [String] =
        ["succeeded", "burned"]
        + [
            ProblemCode.providerUnavailable, .storeUnavailable, .providerError, .identityRejected, .codeRejected,
            .loginNotYours, .issuerMismatch, .stateMismatch, .rateLimited, .internalError, .verifierMismatch,
            .accessDenied, .codeAlreadyUsed, .loginRequired, .loginExpired, .invalidCallback, .clientNotAllowed,
            .interactionRequired, .handoffExpired, .emailDomainDenied, .userAlreadyExists, .registrationRejected,
            .stateKeyExpired, .tooManySessions,
        ].map(\.rawValue)

    private static let refreshes: [Labels] =
        [[("result", "refreshed"), ("reason", "-")]]
        + [EndReason.refreshLost, .grantRevoked, .subjectChanged, .tokenExpired].map {
            [("result", "ended"), ("reason", $0.rawValue)]
        } + (failures + ["not_bound", "unknown"]).map { [("result", "failed"), ("reason", $0)] }

    private static let operations = StoreOperation.allCases.map(\.rawValue) + EventRecord.unmeasured
}
