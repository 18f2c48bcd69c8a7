import Broker

extension OAuthEngine {
    /// Compares `import_tokens` and `move_in` with the features that the metadata lists.
    func importFindings(_ known: Metadata, isOpenID: Bool) -> [ProbeResult] {
        settings.clients.filter { $0.profile.importTokens || $0.profile.moveIn != nil }.flatMap { client in
            let name = client.profile.name.text
            let setting = client.profile.importTokens ? "import_tokens" : "move_in"
            var results: [ProbeResult] = []
            if client.profile.senderConstraint == .dpop, known.proofAlgorithms?.isEmpty != false {
                let text =
                    "client `\(name)` has `\(setting)` and `sender_constrained: dpop`, but the metadata lacks "
                    + "dpop_signing_alg_values_supported: each import would be granted, revoked and refused"
                results.append(ProbeResult(subject: "import", isGood: false, text: text))
            }
            if isOpenID, known.userinfo == nil {
                let text =
                    "client `\(name)` has `\(setting)`, and the metadata lacks userinfo_endpoint: if the answer to a refresh "
                    + "lacks an id_token, the import is refused"
                results.append(ProbeResult(subject: "import", isGood: true, text: text, isDoubtful: true))
            }
            return results
        }
    }
}
