import ArgumentParser
import Broker
import BrokerProviders
import BrokerVault

/// Checks a configuration file and prints all its faults.
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a configuration file; status 1 if it cannot be used.",
        discussion: """
            With --online it also tries providers (discovery, keys, clock), the store and the keys. With --import it then imports \
            the tokens of a file once, and prints the user's subject. The file has the body of an app's POST /v1/sessions: \
            provider, client and tokens. The import ends before its session is made, and the broker revokes the new tokens, so \
            sign in again where the tokens came from. A stopped SQLite broker's database and PostgreSQL are opened directly. A \
            running broker on SQLite is asked through its management listener, with an admin token that has `maintain`.
            """)

    @OptionGroup var file: ConfigOption
    @Flag(help: "Try the providers, the store and the keys, too.")
    var online = false
    @OptionGroup var management: ManagementClient
    @Option(
        name: .customLong("import"), help: "A file with your own tokens, for a first import; needs --online.",
        completion: .file(extensions: ["json"]))
    var tokens: String?

    func validate() throws {
        guard tokens == nil || online else { throw ValidationError("--import needs --online") }
    }

    func run() async throws {
        // The caller's file may be closed to the broker's user.
        let tokens = try tokens.map { try ImportCheck(reading: $0) }
        let configuration = try file.load()
        // Check as the broker's user, because root can read every file, and the broker may be unable to.
        let isGood = try await BrokersUser.running(configuration.store) { user in
            try await look(at: configuration, as: user)
        }
        guard let tokens else {
            if !isGood { throw ExitCode(1) }
            return
        }
        if tokens.isOpenToOthers { print(tokens.warning) }
        guard isGood else {
            print(tokens.omission)
            throw ExitCode(1)
        }
        let finding = try await tokens.run(configuration, try management.completed(by: file.config))
        print(finding)
        guard finding.isGood else { throw ExitCode(1) }
    }

    /// Checks everything except the import; returns whether all parts that were tried are good.
    private func look(at configuration: Configuration, as user: BrokersUser?) async throws -> Bool {
        // `file.load` leaves out the key ring, so load the ring here, as `serve` does at its start.
        do throws(StartFailure) { _ = try KeyRingFile.load(configuration.keys) } catch {
            throw refuse("keys: \(error)" + (user?.asWhom ?? ""))
        }
        try await checkProviders(configuration)
        let far = ImportRules.problems(
            configuration.providers.flatMap(\.clients), configuration.lines, now: SystemClock.wallTime(),
            severity: .error)
        if let first = far.first { throw refuse("\(first)") }
        for warning in configuration.warnings { print(warning) }
        if let fault = Certificates.firstFault(configuration, at: SystemClock.wallTime()) { throw refuse("\(fault)") }
        let clients = configuration.providers.reduce(0) { $0 + $1.clients.count }
        print("\(file.config) is in order: \(configuration.providers.count) providers, \(clients) clients")
        for line in ProfileWords.lines(configuration) { print(line) }
        for line in BindingWords.lines(configuration) { print(line) }
        guard online else { return true }
        let findings = await OnlineCheck.run(configuration)
        for finding in findings { print(finding) }
        return findings.allSatisfy(\.isGood)
    }

    /// Makes the provider clients as `serve` does, but calls no provider.
    private func checkProviders(_ configuration: Configuration) async throws {
        let transport = ProviderHTTP(settings: configuration.outbound)
        let fault: (any Error)?
        do {
            _ = try ProviderCatalogue.make(
                settings: configuration.providers.map(\.settings), http: transport, clock: SystemClock.clock,
                random: { try SystemRandom.bytes($0) })
            fault = nil
        } catch {
            fault = error
        }
        await transport.shutdown()
        if let fault { throw refuse("\(fault)") }
    }

    private func refuse(_ fault: String) -> ExitCode {
        StandardError.write("\(file.config) cannot be used:\n\(fault)\n1 error")
        return ExitCode(1)
    }
}

/// Describes the bindings of clients, as `coatcheck check` prints them.
enum BindingWords {
    /// Returns a line for each client's `binding` and `sender_constrained`, unless the setting is `off`.
    static func lines(_ configuration: Configuration) -> [String] {
        var lines: [String] = []
        for provider in configuration.providers {
            for client in provider.clients.map(\.settings.profile) {
                let path = "providers.\(provider.name).clients.\(client.name)"
                if let words = words(client.binding) { lines.append("\(path).binding: \(words)") }
                let constraint = client.senderConstraint
                let owner =
                    switch constraint {
                    case .off: nil as String?
                    case .dpop: "a key of each sign-in"
                    case .mtls: "the client's certificate"
                    }
                if let owner {
                    lines.append(
                        "\(path).sender_constrained: \(constraint.rawValue): its tokens belong to \(owner); replicas of the "
                            + "previous release answer 503 for them")
                }
            }
        }
        return lines
    }

    private static func words(_ binding: BindingPolicy) -> String? {
        switch binding.mode {
        case .off: return nil
        case .observe:
            return
                "observe: refuses nobody and binds no session; coatcheck_proofs_total counts what `enforce` would answer"
        case .enforce:
            let evidence =
                switch binding.evidence {
                case .pass:
                    "a pass of \(binding.passLifetime.components.seconds) s, which a proof by the device's key renews"
                case .proof: "a proof by the device's key"
                }
            return
                "enforce: a sign-in needs a proof, so older versions of the app that make none are refused; its "
                + "sessions need \(evidence) with each request; earlier sessions stay unbound until they end"
        }
    }
}
