import Broker
import NIOHTTP1

/// The format of Zephr's requests and answers (docs/providers/zephr.md).
enum ZephrWire {
    /// Returns the start URL of a social sign-in; nil if the provider's slug is not configured.
    static func startURL(
        _ own: ZephrSettings, base: EndpointURL, platform: String, _ request: AuthorizationRequest
    ) -> EndpointURL? {
        guard
            let provider = request.socialProvider ?? (own.socialProviders.count == 1 ? own.socialProviders.first : nil),
            own.socialProviders.contains(provider)
        else { return nil }
        let template = own.startPaths[platform] ?? own.paths.start
        let path = template.replacing("{provider}", with: FormPairs.encode(provider))
        var pairs: [(name: String, value: String)] = []
        if let type = own.clientTypes[platform] { pairs.append(("client_type", type)) }
        var names = Set(pairs.map(\.name))
        for pair in own.startParameters + request.parameters where names.insert(pair.name).inserted {
            pairs.append(pair)
        }
        return (try? base.at(path))?.adding(pairs)
    }

    /// Returns the body of the register call, with the state key as `validators.token_exchange`.
    static func registration(_ request: RegistrationRequest, _ own: ZephrSettings) -> [UInt8] {
        let named = Set(request.attributes.map(\.name))
        let attributes = request.attributes + own.attributeDefaults.filter { !named.contains($0.name) }
        var writer = JSONWriter()
        writer.object { writer in
            if own.identifiers != .omit {
                writer.name("identifiers")
                writer.object { writer in
                    if own.identifiers == .send, let identifier = request.identifier {
                        writer.member("email_address", identifier)
                    }
                }
            }
            writer.name("validators")
            writer.object { $0.member("token_exchange", request.stateKey.reveal()) }
            writer.name("attributes")
            writer.object { writer in for pair in attributes { writer.member(pair.name, pair.value) } }
        }
        return writer.bytes
    }

    /// Returns the session in an answer that creates one, from any `Set-Cookie` line, or else from the body's `cookie`.
    static func session(_ answer: ProviderAnswer, name: String, now: WallTime) -> ZephrCookie? {
        for field in answer.headers["Set-Cookie"] {
            if let cookie = ZephrCookie(field, name: name, now: now) { return cookie }
        }
        return answer.object?["cookie"]?.string.flatMap { ZephrCookie($0, name: name, now: now) }
    }

    /// Returns the required attributes of a user schema, except for those that the public may not write.
    static func fields(_ schema: [JSONValue]) -> [RegistrationField] {
        schema.prefix(256).compactMap(\.object).compactMap { field in
            guard let slug = field["slug"]?.string, (1...128).contains(slug.utf8.count),
                field["required"]?.bool == true, field["publicly-writable"]?.bool != false
            else { return nil }
            let kind: RegistrationField.Kind =
                switch field["input-type"]?.string {
                case "number", "range": .number
                case "checkbox", "boolean": .boolean
                default: .string
                }
            return RegistrationField(name: slug, type: kind, required: true)
        }
    }
}
