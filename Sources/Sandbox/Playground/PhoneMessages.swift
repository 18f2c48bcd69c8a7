/// The phone's messages to its user.
enum PhoneMessages {
    static let silentProvider = "The provider does not answer at the moment. Please try again."

    /// Returns the explanation of a session's end, for its reason.
    static func ended(_ reason: String) -> String {
        switch reason {
        case "logged_out": "You are signed out."
        case "logged_out_elsewhere": "You were signed out from another device."
        case "grant_revoked": "The provider took its consent back. Please sign in again."
        case "refresh_lost": "The provider's answer got lost, and cannot be had again. Please sign in again."
        case "provider_logout": "You signed out at the provider."
        case "idle_expired", "expired", "token_expired": "Your session has expired. Please sign in again."
        case "key": "This session belongs to a key that this browser does not have. Please sign in again."
        case "admin": "Your session was ended by an operator."
        default: "Your session has ended (\(reason)). Please sign in again."
        }
    }

    /// Returns the explanation of a failed sign-in.
    static func failed(_ answer: PlaygroundAnswer?) -> String {
        guard let answer else { return "No answer. Nothing is lost: please try again." }
        switch answer.code {
        case "access_denied": return "The sign-in was refused (access_denied)."
        case "provider_unavailable": return silentProvider
        case "": return "That did not work (status \(answer.status)). Please try again."
        default: return "That did not work (\(answer.code)). Please try again."
        }
    }

    /// Returns the reason why the provider's page is open, from the demand on a payment.
    static func demand(_ demand: JSON, of payment: PlaygroundPayment) -> String {
        var wanted: [String] = []
        if let age = demand["max_age"]?.number {
            wanted.append(
                age < 120 || age % 60 != 0
                    ? "of the last \(age) seconds" : "of the last \(age / 60) minutes")
        }
        if let classes = demand["acr_values"]?.text { wanted.append("of the class \(classes)") }
        return "To pay \(payment.title), “Corner Shop” wants a sign-in \(wanted.joined(separator: ", "))."
    }

    /// Returns a payment that the API accepted, in words.
    static func paid(_ payment: JSON) -> String {
        "\(payment["amount"]?.number ?? 0) \(payment["currency"]?.text ?? ""), by \(payment["by"]?.text ?? "nobody")"
            + " (\(payment["id"]?.text ?? ""))."
    }

    /// Returns the explanation of a failed step-up; `said` is the answer in words.
    static func refusedStepUp(_ answer: PlaygroundAnswer?, said: String) -> String {
        switch answer?.code {
        case nil: "The provider or the broker does not answer at the moment."
        case "subject_mismatch": "\(said): somebody else signed in."
        case "access_denied": "\(said): the user said no at the provider."
        case "step_up_failed":
            "\(said): wanted was \(answer?.json["required"]?.serialized ?? "nothing"), and the provider answered "
                + "\(answer?.json["got"]?.serialized ?? "nothing")."
        default: "The step-up was answered \(said)."
        }
    }

    /// Returns the result of an API call, in words.
    static func called(_ answer: PlaygroundAnswer) -> String {
        guard answer.status == 200 else {
            return "\(answer.status) from the \(answer.header("Coatcheck-Source") ?? "network")"
                + (answer.code.isEmpty ? "" : ": " + answer.code)
        }
        for field in answer.json["headers"]?.elements ?? [] {
            if let parts = field.elements, parts.count == 2, parts[0].text == "Authorization" {
                let token = Shortened.field("Authorization", parts[1].text ?? "")
                return "200. The API saw “\(token)”, a token that this phone never had."
            }
        }
        return "200. " + Shortened.json(answer.json).serialized
    }
}
