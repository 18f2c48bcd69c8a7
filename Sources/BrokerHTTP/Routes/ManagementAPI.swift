package import Broker
import BrokerWire
import HTTPTypes
import NIOCore

/// The dependencies of the management handlers.
final class ManagementAPI: Sendable {
    let health: ManagementHealth
    let sessions: AdminSessions
    /// Nil where nobody administers the store.
    let store: ManagementStore?
    /// Nil where no file stands behind the configuration.
    let comparison: ManagementComparison?
    let configuration: HTTPConfiguration
    let clock: BrokerClock
    /// SHA-256, for comparing admin tokens with what is stored of them.
    let digest: @Sendable ([UInt8]) -> Digest
    let wrongTokens: TokenBuckets

    init(
        health: ManagementHealth, sessions: AdminSessions, store: ManagementStore?, comparison: ManagementComparison?,
        configuration: HTTPConfiguration, clock: BrokerClock, digest: @escaping @Sendable ([UInt8]) -> Digest,
        wrongTokens: TokenBuckets?
    ) {
        self.store = store
        self.comparison = comparison
        self.health = health
        self.sessions = sessions
        self.configuration = configuration
        self.clock = clock
        self.digest = digest
        self.wrongTokens =
            wrongTokens
            ?? TokenBuckets(perMinute: configuration.limits.charges.wrongTokensPerMinute, monotonic: clock.monotonic)
    }

    /// `GET /livez`: the process serves requests.
    @Sendable func live(_ call: Call) async throws(BrokerProblem) -> Answer {
        Answers.json(.ok, Self.status("live"), call)
    }

    /// `GET /readyz`: the store is reachable and migrated, its role has its rights, the key ring opens it; providers and the clock are shown and do
    /// not count, nor does a full disk: sessions are served all the same.
    @Sendable func ready(_ call: Call) async throws(BrokerProblem) -> Answer {
        var store = "ok"
        do throws(StoreFailure) { try await health.ping() } catch { store = "unavailable" }
        let found = health.conditions()
        let keys = found.keysFit ? "ok" : "do_not_open_the_store"
        let status = Self.status(found, storeAnswers: store == "ok")
        let providers = health.providers()
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("status", status)
            writer.member("store", store)
            writer.member("disk", found.diskIsFull ? "full" : "ok")
            if let file = found.endingsFile { writer.member("endings_file", file) }
            writer.member("keys", keys)
            if let ahead = found.clockAhead { writer.member("clock_ahead_seconds", ahead.components.seconds) }
            writer.name("problems")
            writer.array { writer in
                for problem in Self.problems(found, storeAnswers: store == "ok") { writer.value(.string(problem)) }
                for provider in providers {
                    for warning in provider.warnings {
                        writer.value(.string("provider \(provider.name.text): \(warning)"))
                    }
                }
            }
            writer.name("providers")
            writer.object { writer in
                for provider in providers { writer.member(provider.name.text, provider.state) }
            }
            certificates(&writer)
        }
        guard status != "ready" else { return Answers.json(.ok, writer.bytes, call) }
        return Answers.json(.serviceUnavailable, writer.bytes, call, adding: [Self.retryAfter])
    }

    /// Writes the certificates that clients show, and what time they have; absent where there are none.
    private func certificates(_ writer: inout JSONWriter) {
        let all = health.certificates()
        guard !all.isEmpty else { return }
        let now = clock.now()
        writer.name("certificates")
        writer.array { writer in
            for certificate in all {
                writer.object { writer in
                    writer.member("provider", certificate.provider.text)
                    writer.member("client", certificate.client.text)
                    writer.member("not_after", certificate.notAfter.rfc3339)
                    writer.member("days_left", certificate.daysLeft(at: now))
                }
            }
        }
    }

    /// Returns the first condition that turns readiness red, in one word.
    private static func status(_ found: ManagementHealth.Conditions, storeAnswers: Bool) -> String {
        if found.drain != nil { return "shutting_down" }
        if !storeAnswers { return "store_unavailable" }
        if !found.hasRights { return "store_rights_missing" }
        return found.keysFit ? "ready" : "keys_do_not_fit"
    }

    /// The faults, a sentence each.
    private static func problems(_ found: ManagementHealth.Conditions, storeAnswers: Bool) -> [String] {
        var problems: [String] = []
        if let drain = found.drain {
            problems.append(
                "shutting down: \(drain.requests) requests and \(drain.streams) event streams are under way")
        }
        if !storeAnswers { problems.append("the store does not answer, or is not migrated") }
        if let lacking = found.lackingRights { problems.append("\(lacking); GRANT them to it") }
        if !found.keysFit {
            problems.append("the key ring is not the store's: \(found.keys)")
        } else if let foreign = found.foreignKeys {
            problems.append(foreign)
        }
        if found.diskIsFull {
            problems.append("the store's disk is full: sign-ins are refused, sessions are served and ended")
        }
        if found.pendingEndings > 0 {
            problems.append("\(found.pendingEndings) endings wait for the disk: make room before a restart")
        }
        if let file = found.endingsFile, file != "ok" {
            problems.append("the endings file takes nothing (\(file)): \(found.unkeptEndings) endings wait for it")
        }
        return problems
    }

    private static let retryAfter = HTTPField(name: .retryAfter, value: "5")

    /// `GET /metrics`: Prometheus text.
    @Sendable func metrics(_ call: Call) async throws(BrokerProblem) -> Answer {
        var fields = Answers.fields(call.requestID)
        fields.append(Self.prometheus)
        let text = await health.metrics()
        return Answer(.ok, fields, body: .whole(ByteBuffer(string: text)))
    }

    private static let prometheus = HTTPField(name: .contentType, value: "text/plain; version=0.0.4; charset=utf-8")

    private static func status(_ text: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 32)
        writer.object { $0.member("status", text) }
        return writer.bytes
    }
}

/// The state of the process that the management listener tells, as closures that the executable fills in.
package struct ManagementHealth: Sendable {
    /// One provider's state.
    package struct Provider: Sendable {
        package let name: ProviderName
        package let kind: ProviderKind
        /// In one word, for `/readyz`.
        package let state: String
        /// Discovery, breaker and keys, for `/admin/v1/providers`; names differ from `name` and `kind`.
        package let details: [(name: String, value: JSONValue)]
        /// Sentences for `problems` in `/readyz`; they change no status.
        package let warnings: [String]

        package init(
            name: ProviderName, kind: ProviderKind, state: String, details: [(name: String, value: JSONValue)] = [],
            warnings: [String] = []
        ) {
            self.warnings = warnings
            self.name = name
            self.kind = kind
            self.state = state
            self.details = details
        }
    }

    /// A client's certificate.
    package struct Certificate: Sendable {
        let provider: ProviderName
        let client: ClientName
        let notAfter: WallTime

        package init(provider: ProviderName, client: ClientName, notAfter: WallTime) {
            self.provider = provider
            self.client = client
            self.notAfter = notAfter
        }

        /// The whole days that are left, less than none once it has run out.
        func daysLeft(at now: WallTime) -> Int64 {
            let seconds = notAfter.since(now).wholeSeconds
            return seconds >= 0 ? seconds / 86_400 : -((-seconds + 86_399) / 86_400)
        }
    }

    /// The conditions that readiness shows beside the store's answer and the providers.
    package struct Conditions: Sendable {
        /// Whether the store's role has, or once had, the rights that the tables need.
        package var hasRights = true
        /// The rights that it lacks, in words; nil for none.
        package var lackingRights: String?
        /// Whether the key ring opens what is stored.
        package var keysFit = true
        /// The finding of the last try, in words.
        package var keys = ""
        /// The values that another ring has sealed while it stood in this one's place, in words; nil where there are none.
        package var foreignKeys: String?
        /// The clock's lead over the store's; nil where the store has none, or it was not asked yet.
        package var clockAhead: Duration?
        /// The work under way while the process shuts down, which turns readiness red first (SEC-123); nil when it does not.
        package var drain: (requests: Int, streams: Int)?
        package var diskIsFull = false
        /// Endings that the disk has not taken yet.
        package var pendingEndings = 0
        /// `ok`, or why it takes nothing; nil where there is none.
        package var endingsFile: String?
        package var unkeptEndings = 0

        package init() {}
    }

    /// Throws when the store does not answer or is not migrated (`BrokerStore.ping`).
    package let ping: @Sendable () async throws(StoreFailure) -> Void
    package let conditions: @Sendable () -> Conditions
    /// Returns the metrics as Prometheus text.
    package let metrics: @Sendable () async -> String
    /// Returns the providers' states; shown, and counting for nothing.
    package let providers: @Sendable () -> [Provider]
    /// Returns the certificates that clients show; they count for nothing either.
    package let certificates: @Sendable () -> [Certificate]

    package init(
        ping: @escaping @Sendable () async throws(StoreFailure) -> Void,
        conditions: @escaping @Sendable () -> Conditions = { Conditions() },
        metrics: @escaping @Sendable () async -> String = { "" },
        providers: @escaping @Sendable () -> [Provider] = { [] },
        certificates: @escaping @Sendable () -> [Certificate] = { [] }
    ) {
        self.certificates = certificates
        self.ping = ping
        self.conditions = conditions
        self.metrics = metrics
        self.providers = providers
    }
}
