package import Broker

/// The payload's value, if the payload is of this kind; nil or empty otherwise.
extension BrokerProblem {
    package var errors: [FieldFault] {
        if case .fields(let faults) = payload { faults } else { [] }
    }

    package var login: StartedLogin? {
        if case .login(let login) = payload { login } else { nil }
    }

    package var providerError: String? {
        if case .providerError(let code) = payload { code } else { nil }
    }

    package var shortfall: StepUpShortfall? {
        if case .shortfall(let shortfall) = payload { shortfall } else { nil }
    }

    package var wanted: WantedStepUp? {
        if case .stepUp(let wanted) = payload { wanted } else { nil }
    }
}
