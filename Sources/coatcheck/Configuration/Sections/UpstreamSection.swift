import Broker
import BrokerProviders
import BrokerRelay

/// An API that the relay may call (`upstreams.NAME`), with its position in the file.
struct UpstreamSection: Sendable {
    /// The settings; nil if their faults were reported.
    let settings: UpstreamSettings?
    /// `employees`: whether a Clover upstream may relay data with employees' PINs.
    let employees: Bool
    /// `tls`: the client certificate that the broker shows to the upstream, and the roots that it trusts for the upstream.
    let connection: ConnectionSettings
    /// The paths of the entries of `require`, in the file's order.
    let requirePaths: [String]
    let path: String
    let line: Int?

    init?(name: String, _ section: ConfigSection) {
        path = section.path
        line = section.line
        for key in ["base_url", "provider", "allow"] { section.require(key) }
        let baseURL = section.text("base_url", limit: 2048)
        let provider = section.text("provider", limit: 63).flatMap { ProviderName($0) }
        let clients = section.words("clients")?.map { ClientName(unchecked: $0) }
        let allow = section.texts("allow", limit: 1024)
        let credential = section.choice("credential", among: [TokenSet.Credential.bearer, .zephrCookie]) ?? .bearer
        let headers = section.words("request_headers") ?? []
        var proof = ProofPresentation()
        proof.scheme = section.choice("scheme") ?? proof.scheme
        if let text = section.text("public_url", limit: 2048) {
            do throws(UpstreamFault) { proof.publicBase = try UpstreamBase(text) } catch {
                section.report("public_url", error.message)
            }
        }
        let timeout = section.duration(
            "timeout", default: UpstreamSettings.defaultTimeout, in: .seconds(1) ... .seconds(600))
        let isInternal = section.flag("internal", default: false)
        var connection = ConnectionSettings()
        if let tls = section.optionalSection("tls") { TLSReader.read(tls: tls, into: &connection) }
        self.connection = connection
        employees = section.flag("employees", default: false)
        let require = StepUpReader.requirements(section)
        requirePaths = require.map(\.path)
        let token = section.optionalSection("token").flatMap { TargetReader.target($0) }
        let challenges = section.choice("challenges", as: Challenges.self) ?? .pass
        let concurrent = section.integer("max_concurrent", default: 1024, in: 1...65_536)
        guard let name = UpstreamName(name) else {
            section.report(nil, "has a name that is not 1 to 63 letters, digits, `-`, `_` or `.`")
            return nil
        }
        guard let baseURL, let provider, section.has("allow") else {
            if section.has("provider"), provider == nil {
                section.report("provider", "has to be the name of a provider")
            }
            settings = nil
            return
        }
        do throws(UpstreamFaults) {
            var made = try UpstreamSettings(
                name: name, baseURL: baseURL, provider: provider, clients: clients, allow: allow,
                credential: credential,
                requestHeaders: headers, timeout: timeout, isInternal: isInternal, maximumConcurrent: concurrent)
            made.proof = proof
            made.require = require.map(\.requirement)
            made.token = token
            made.passesChallenges = challenges == .pass
            settings = made
        } catch {
            for fault in error.faults { section.report(fault.key, fault.message) }
            settings = nil
        }
    }

    private enum Challenges: String, CaseIterable { case pass, off }

    /// Returns the settings for the relay.
    ///
    /// The provider's kind decides whether calls about employees are refused.
    func relayed(_ providers: [ProviderSection]) -> UpstreamSettings? {
        var relayed = settings
        let kind = providers.first { $0.name == settings?.provider }?.kind
        let connection = connection
        relayed?.tls = UpstreamTLS(
            certificate: { connection.identity.map { RelayCertificate($0.current) } },
            roots: connection.trust?.certificates ?? [], rootsID: connection.trust?.id)
        relayed?.hidesEmployees = kind == .clover && !employees
        return relayed
    }
}
