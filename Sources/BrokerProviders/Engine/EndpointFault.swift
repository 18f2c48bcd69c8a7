import Broker
import Synchronization

/// An unusable URL in a provider's metadata, for an endpoint that a client needs or calls.
struct EndpointFault: Sendable, Equatable {
    let member: Metadata.Member
    /// The endpoint's member in the metadata document, for example `token_endpoint`.
    let name: String
    /// Whether every login needs the endpoint.
    let isNeeded: Bool

    /// The fault and its consequences, for the log.
    var text: String {
        let fault = "metadata: \(name) is not a URL to call"
        if isNeeded { return "\(fault): no sign-in starts; fix it there, or set the endpoint in `endpoints`" }
        switch member {
        case .revocation: return "\(fault): log-outs leave tokens alive at the provider; set `endpoints.revocation`"
        case .endSession: return "\(fault): log-outs leave the provider's own session; set `endpoints.end_session`"
        case .pushedAuthorization: return "\(fault): requests are not pushed; set `endpoints.par`"
        case .authorization, .token, .userinfo, .jwks, .introspection: return "\(fault): it is not used"
        }
    }

    /// Returns the faults of a metadata document, for the endpoints that the provider's clients call.
    static func all(of known: Metadata, _ settings: ProviderSettings) -> [EndpointFault] {
        var faults: [EndpointFault] = []
        for client in settings.clients {
            let isCertified = client.wire.connection.identity != nil
            let known = isCertified ? known.withAliases(under: settings.endpoints) : known
            for member in Metadata.Member.allCases {
                guard let name = known.unusable[member] else { continue }
                let isNeeded = needs(settings, client).contains(member) || needsPushing(known, client, member)
                guard isNeeded || calls(settings, client, member) else { continue }
                let fault = EndpointFault(member: member, name: name, isNeeded: isNeeded)
                if !faults.contains(fault) { faults.append(fault) }
            }
        }
        return faults
    }

    /// Returns the endpoints that every sign-in of a client needs.
    static func needs(_ settings: ProviderSettings, _ client: ClientSettings) -> Set<Metadata.Member> {
        var needs: Set<Metadata.Member> = [.authorization, .token]
        let identity = client.wire.identity
        switch settings.service {
        case .oidc:
            needs.insert(.jwks)
            if identity.source == .userinfo || identity.source == .api, identity.url == nil { needs.insert(.userinfo) }
        case .oauth2:
            if identity.url == nil { needs.insert(.userinfo) }
        case .clever(let own):
            if own.openID { needs.insert(.jwks) }
        case .clover, .zephr: break
        }
        return needs
    }

    private static func needsPushing(_ known: Metadata, _ client: ClientSettings, _ member: Metadata.Member) -> Bool {
        member == .pushedAuthorization
            && (known.requiresPushedAuthorization || client.wire.pushedAuthorization == .required)
    }

    private static func calls(
        _ settings: ProviderSettings, _ client: ClientSettings, _ member: Metadata.Member
    ) -> Bool {
        switch member {
        case .authorization, .token: true
        case .userinfo, .introspection: false
        case .jwks: client.wire.idToken.issuer != nil
        case .revocation:
            client.wire.revocation.style != .none && settings.endpoints.revocation(of: client.clientID) == nil
        case .endSession: client.wire.revocation.endSession
        case .pushedAuthorization: client.wire.pushedAuthorization != .off
        }
    }
}

/// The unusable endpoints in a provider's newest metadata, for the log and for the readiness endpoint.
final class EndpointWatch: Sendable {
    private let faults = Mutex<[EndpointFault]>([])

    /// Stores the faults of new metadata; returns the faults that the previous metadata did not have.
    func newFaults(_ found: [EndpointFault]) -> [EndpointFault] {
        faults.withLock { faults in
            let before = faults
            faults = found
            return found.filter { !before.contains($0) }
        }
    }

    /// Sentences about unusable revocation endpoints.
    ///
    /// Without a revocation, tokens stay valid at the provider after a log-out.
    var warnings: [String] {
        faults.withLock { $0 }.filter { $0.member == .revocation && !$0.isNeeded }.map(\.text)
    }
}

extension OAuthEngine {
    /// Returns the endpoints that every sign-in of a client needs.
    func needs(of client: EngineClient) -> Set<Metadata.Member> {
        EndpointFault.needs(settings, client.settings)
    }

    /// Returns the faults of metadata, for the endpoints that clients call.
    func faults(of known: Metadata) -> [EndpointFault] { EndpointFault.all(of: known, settings) }
}
