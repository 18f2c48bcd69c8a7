/// Describes the result of a first import for operators.
///
/// The sentences are free of tokens, because the details of failures are made for the log.
enum FirstImportWords {
    /// The result of a refresh that was granted.
    static let granted =
        "granted; the import ends here, and the broker revokes the new tokens, so sign in again where the tokens came from"
    /// The result if the provider has only confirmed the token.
    static let confirmed = "confirmed; the import ends here, and the token stays valid"
    /// The result if the store failed at the end.
    static let unrecorded =
        "granted, but the store failed to record the grant; the broker revokes the new tokens, so try again with the tokens of "
        + "another sign-in"

    /// Returns the sentence for an import that failed.
    static func words(_ problem: BrokerProblem, _ course: ImportTrial.Course) -> String {
        let detail = course.failure.map { ": \($0.detail)" } ?? ""
        switch problem.payload {
        case .importRefused(.notOpen): return "refused before any call: the client lacks `import_tokens` and `move_in`"
        case .importRefused(.closed):
            return "refused before any call: `until` is over, so the client refuses imports"
        case .importFailed(let end): return words(end, course, detail)
        case .fields(let faults):
            return "refused before any call: " + faults.map(\.words).joined(separator: ", ")
        default: break
        }
        switch problem.code {
        case .providerNotFound: return "refused before any call: the configuration lacks the provider"
        case .codeAlreadyUsed:
            return "refused before any call: these tokens were imported before; take the tokens of another sign-in"
        case .identityRejected: return "granted, but the user is refused\(detail); the broker revokes the new tokens"
        case .providerError where course.isKept:
            return
                "granted, but the provider refuses to refresh the new tokens\(detail); the broker keeps them for an hour, so mend "
                + "the client's settings and try again soon"
        case .providerError where course.isGranted:
            return "granted, but the user is unreadable\(detail); the broker revokes the new tokens"
        case .providerError:
            guard case .rejected(let refusal) = course.failure, refusal.isInvalidGrant, !refusal.isAboutProof else {
                return "the provider refuses the client\(detail); mend the client's settings, and try again"
            }
            return
                "the provider refuses the token with `invalid_grant`, and every earlier import of this client failed; "
                + "is `client_id` the client that the token belongs to? If it is, the token is spent, so take another one"
        case .providerUnavailable where course.isGranted:
            return
                "granted, but reading the user failed\(detail); the broker keeps the new tokens for an hour, so try again "
                + "soon"
        case .providerUnavailable: return "failed\(detail); try again with the same file"
        default: return "failed: \(problem.code.rawValue)" + (problem.privateDetail.map { ": \($0)" } ?? "")
        }
    }

    private static func words(_ end: ImportEnd, _ course: ImportTrial.Course, _ detail: String) -> String {
        switch end {
        case .grantRevoked where course.failure == nil:
            "refused before any call: these tokens were refused or tested before; take the tokens of another sign-in"
        case .grantRevoked where course.isGranted:
            "granted, and then the provider ended the grant\(detail); stop whatever else uses the old token, and try again with "
                + "the tokens of another sign-in"
        case .grantRevoked:
            "the provider refuses the token\(detail); an earlier import of this client was granted, so the token itself is spent"
        case .refreshLost:
            "the provider's answer was lost, and the token may be spent; take the tokens of another sign-in"
        case .notBound:
            "granted, but the new tokens are unbound, and the client has `sender_constrained`; the broker revokes them"
        case .expired, .unknownSession: "refused before any call: these tokens were tested more than an hour ago"
        }
    }

    /// Returns the fault of a member in words.
    static func words(_ fault: FieldFault) -> String {
        switch fault.code {
        case .required: "is missing"
        case .unknown: "is unknown"
        case .duplicate: "is there twice"
        case .wrongType: "has the wrong type"
        case .tooLong: "is too long"
        case .tooShort: "is too short"
        case .malformed where fault.pointer == "/tokens/id_token":
            "is malformed, or belongs to another issuer or client"
        case .malformed: "is malformed"
        case .notAllowed where fault.pointer == "/client": "is unknown to the provider's configuration"
        case .notAllowed: "is refused here"
        case .conflict: "excludes another member"
        }
    }
}

extension FieldFault {
    /// The member and its fault in words.
    package var words: String { "\(pointer.isEmpty ? "the content" : pointer) \(FirstImportWords.words(self))" }
}
