package import Broker

/// Reads the tokens of a first import, from a request or from the file of `coatcheck check --import`.
///
/// The form is that of `POST /v1/sessions`, so an app's mark can be used unchanged. `login_token` and `device` are ignored,
/// because the import ends before its session is made.
package enum FirstImportBody {
    /// Parses a body; throws `invalid_request`, which names every faulty member.
    package static func read(_ bytes: [UInt8], maximumBytes: Int = 65_536) throws(BrokerProblem) -> FirstImport.Order {
        var body = try RequestObject(parsing: bytes, maximumBytes: maximumBytes)
        let provider: ProviderName? = body.name("provider", required: true)
        let client: ClientName? = body.name("client")
        let tokens = body.importedTokens("tokens")
        if !body.contains("tokens") { body.fault("tokens", .required) }
        _ = body.token("login_token", length: 43...128)
        _ = body.text("device", length: 1...64)
        try body.finish()
        guard let provider, let tokens else { throw BrokerProblem(.invalidRequest) }
        return FirstImport.Order(provider: provider, client: client, tokens: tokens)
    }
}

extension RequestObject {
    /// Reads tokens that an app already holds.
    mutating func importedTokens(_ name: String) -> ImportedTokens? {
        object(name) { body in
            let access = body.opaque("access_token")
            let refresh = body.opaque("refresh_token")
            let idToken = body.text("id_token", length: 1...16_384, where: RequestText.isVisible).map { Secret($0) }
            let merchant = body.text("merchant_id", length: 1...64, where: RequestText.isAlphanumeric)
            return ImportedTokens(
                accessToken: access, refreshToken: refresh, merchantID: merchant, idToken: idToken)
        }
    }
}
