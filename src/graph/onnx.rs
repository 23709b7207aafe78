//! ONNX files as models.
//!
//! ```text
//!   bytes ──prost──► messages ──► names to numbers, functions written out, nodes sorted ──► Model
//!                                    └ external data: files beside the model
//! ```
//!
//! A file may come from anywhere. Its messages nest at most 100 deep, functions at most [`MAX_CALLS`],
//! written out it has at most [`MAX_NODES`] nodes, and external data lies below the model's folder.

mod proto;
mod tensor;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use super::error::GraphError;
use super::model::{Attribute, Body, Dim, Graph, Model, Node, ValueId, ValueType};
use super::tensor::Tensor;
use proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    ValueInfoProto, attribute_type,
};
pub(crate) use tensor::element_type;

/// How many nodes a model may have, functions written out.
pub const MAX_NODES: usize = 1 << 18;
/// How deep functions may call each other.
pub const MAX_CALLS: usize = 64;

/// Reads a model from a file.
///
/// # Errors
///
/// If it cannot be read, is no ONNX model, or says something that does not hold together. Ops and types of
/// nodes are not looked at yet.
pub fn read(path: &Path) -> Result<Model, GraphError> {
    let bytes =
        fs::read(path).map_err(|source| GraphError::Io { path: path.to_path_buf(), source })?;
    decode(Bytes::from(bytes), Some(path.parent().unwrap_or(Path::new("."))))
}

/// Reads a model from bytes. External data is looked for in `folder`; without one there may be none.
///
/// # Errors
///
/// As [`read`].
pub fn decode(bytes: impl Into<Bytes>, folder: Option<&Path>) -> Result<Model, GraphError> {
    let model = ModelProto::decode(bytes.into()).map_err(|e| GraphError::Parse(e.to_string()))?;
    let graph = model.graph.as_ref().ok_or_else(|| GraphError::Parse("it has no graph".into()))?;
    if model.ir_version < 1 {
        return Err(GraphError::Parse("it has no version of the format".into()));
    }
    let mut functions = HashMap::new();
    for function in &model.functions {
        let id = (domain(&function.domain), &*function.name, &*function.overload);
        if functions.insert(id, function).is_some() {
            let place = format!("function \"{}\"", function.name);
            return Err(GraphError::invalid(place, "is defined twice"));
        }
    }
    let mut reader = Reader {
        functions,
        folder,
        frames: Vec::new(),
        building: Vec::new(),
        calls: Vec::new(),
        nodes: 0,
    };
    let opsets = opsets(&model.opset_import);
    let (graph, _) = reader.graph(graph, None, &opsets, &HashMap::new())?;
    Ok(Model { graph })
}

/// Reads a `TensorProto` file, as ONNX's test data is.
///
/// # Errors
///
/// If it is none, or of a type that is not supported.
pub fn decode_tensor(bytes: impl Into<Bytes>) -> Result<Tensor, GraphError> {
    let tensor = proto::TensorProto::decode(bytes.into())
        .map_err(|e| GraphError::Parse(format!("not a tensor: {e}")))?;
    tensor::decode(&tensor, None)
}

/// The name of ONNX's own domain is empty, or this.
fn domain(name: &str) -> &str {
    match name {
        "ai.onnx" => "",
        name => name,
    }
}

type Opsets<'m> = HashMap<&'m str, i64>;
type Bindings = HashMap<String, Attribute>;

fn opsets(imports: &[OperatorSetIdProto]) -> Opsets<'_> {
    imports.iter().map(|import| (domain(&import.domain), import.version)).collect()
}

struct Reader<'m> {
    functions: HashMap<(&'m str, &'m str, &'m str), &'m FunctionProto>,
    folder: Option<&'m Path>,
    frames: Vec<Frame>,
    building: Vec<Building>,
    /// The functions that are being written out, each called by the one before.
    calls: Vec<&'m FunctionProto>,
    nodes: usize,
}

/// Names that are visible in one place: a graph, or a function that is written out.
struct Frame {
    /// What each name means; `None`: an input that was left out.
    names: HashMap<String, Option<ValueId>>,
    /// The graph that its values are in.
    graph: usize,
    /// Where names are looked for that it does not have.
    around: Option<usize>,
}

/// A graph that is being read.
#[derive(Default)]
struct Building {
    graph: Graph,
    /// What it uses of the graph around it: values there, and here.
    captures: Vec<(ValueId, ValueId)>,
    captured: HashMap<ValueId, ValueId>,
}

impl<'m> Reader<'m> {
    /// Reads a graph; gives it and the values it captures.
    fn graph(
        &mut self,
        proto: &'m GraphProto,
        around: Option<usize>,
        opsets: &Opsets<'m>,
        bindings: &Bindings,
    ) -> Result<(Graph, Vec<ValueId>), GraphError> {
        let place = || format!("graph \"{}\"", proto.name);
        let number = self.building.len();
        self.building.push(Building::default());
        let frame = self.frames.len();
        self.frames.push(Frame { names: HashMap::new(), graph: number, around });
        self.building[number].graph.name.clone_from(&proto.name);

        if !proto.sparse_initializer.is_empty() {
            return Err(GraphError::invalid(place(), "sparse initialisers are not supported"));
        }
        let mut inputs = Vec::new();
        for input in &proto.input {
            let ty = value_type(input)?;
            inputs.push(self.define(frame, &input.name, ty)?);
        }
        for initializer in &proto.initializer {
            let tensor = tensor::decode(initializer, self.folder)?;
            let name = &*initializer.name;
            if name.is_empty() {
                return Err(GraphError::invalid(place(), "an initialiser has no name"));
            }
            let known = self.frames[frame].names.get(name).copied().flatten();
            let graph = &mut self.building[number].graph;
            let id = match known {
                Some(id) if graph.constants.iter().any(|(other, _)| *other == id) => {
                    let reason = format!("the initialiser \"{name}\" is defined twice");
                    return Err(GraphError::invalid(place(), reason));
                }
                Some(id) => id,
                None => {
                    let ty = ValueType::fixed(tensor.element(), tensor.dims());
                    self.define(frame, name, ty)?
                }
            };
            self.building[number].graph.constants.push((id, tensor));
        }
        self.nodes(&proto.node, frame, opsets, bindings)?;

        let mut outputs = Vec::new();
        for output in &proto.output {
            let Some(id) = self.find(frame, &output.name) else {
                let reason = format!("nothing computes the output \"{}\"", output.name);
                return Err(GraphError::invalid(place(), reason));
            };
            let declared = value_type(output)?;
            let value = &mut self.building[number].graph.values[id.index()];
            if value.ty == ValueType::default() {
                value.ty = declared;
            }
            outputs.push(id);
        }

        self.frames.pop();
        let Building { mut graph, captures, .. } =
            self.building.pop().expect("it was pushed above");
        graph.inputs = captures.iter().map(|(_, here)| *here).chain(inputs).collect();
        graph.outputs = outputs;
        sort(&mut graph)?;
        Ok((graph, captures.into_iter().map(|(there, _)| there).collect()))
    }

    /// A new value under a name that is not taken yet.
    fn define(&mut self, frame: usize, name: &str, ty: ValueType) -> Result<ValueId, GraphError> {
        let number = self.frames[frame].graph;
        let id = self.building[number].graph.add(name, ty);
        if self.frames[frame].names.insert(name.to_owned(), Some(id)).is_some() {
            let place = format!("graph \"{}\"", self.building[number].graph.name);
            return Err(GraphError::invalid(place, format!("\"{name}\" is defined twice")));
        }
        Ok(id)
    }

    /// What a name means. A value of a graph further out is captured.
    fn look_up(&mut self, frame: usize, name: &str) -> Option<Option<ValueId>> {
        if let Some(found) = self.frames[frame].names.get(name) {
            return Some(*found);
        }
        let around = self.frames[frame].around?;
        let Some(there) = self.look_up(around, name)? else { return Some(None) };
        let there_ty = {
            let graph = &self.building[self.frames[around].graph].graph;
            graph.values[there.index()].ty.clone()
        };
        let building = &mut self.building[self.frames[frame].graph];
        let here = match building.captured.get(&there) {
            Some(here) => *here,
            None => {
                let here = building.graph.add(name, there_ty);
                building.captures.push((there, here));
                building.captured.insert(there, here);
                here
            }
        };
        self.frames[frame].names.insert(name.to_owned(), Some(here));
        Some(Some(here))
    }

    fn find(&mut self, frame: usize, name: &str) -> Option<ValueId> {
        self.look_up(frame, name).flatten()
    }

    fn nodes(
        &mut self,
        nodes: &'m [NodeProto],
        frame: usize,
        opsets: &Opsets<'m>,
        bindings: &Bindings,
    ) -> Result<(), GraphError> {
        // All names first: nodes may stand in any order.
        for node in nodes {
            for output in node.output.iter().filter(|name| !name.is_empty()) {
                // A function's outputs are its caller's values.
                if !self.is_output_of_call(frame, output) {
                    self.define(frame, output, ValueType::default())?;
                }
            }
        }
        for node in nodes {
            self.node(node, frame, opsets, bindings)?;
        }
        Ok(())
    }

    fn is_output_of_call(&self, frame: usize, name: &str) -> bool {
        let function = self.frames[frame].around.is_none().then(|| self.calls.last()).flatten();
        function.is_some_and(|function| function.output.iter().any(|output| output == name))
            && self.frames[frame].names.contains_key(name)
    }

    fn node(
        &mut self,
        proto: &'m NodeProto,
        frame: usize,
        opsets: &Opsets<'m>,
        bindings: &Bindings,
    ) -> Result<(), GraphError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let reason = format!("more than {MAX_NODES} nodes, functions written out");
            return Err(GraphError::invalid("model", reason));
        }
        let label = || {
            let name = if proto.name.is_empty() {
                let output = proto.output.iter().find(|name| !name.is_empty());
                format!("of \"{}\"", output.map_or("", |name| name))
            } else {
                format!("\"{}\"", proto.name)
            };
            format!("node {name} ({})", proto.op_type)
        };
        let mut inputs = Vec::with_capacity(proto.input.len());
        for (i, name) in proto.input.iter().enumerate() {
            inputs.push(match name.as_str() {
                "" => None,
                name => self.look_up(frame, name).ok_or_else(|| {
                    let reason = format!("input {i}: nothing computes \"{name}\"");
                    GraphError::invalid(label(), reason)
                })?,
            });
        }
        let outputs: Vec<_> = proto
            .output
            .iter()
            .map(|name| self.frames[frame].names.get(name).copied().flatten())
            .collect();
        let mut attributes = BTreeMap::new();
        for attribute in &proto.attribute {
            let value = self.attribute(attribute, frame, opsets, bindings, &label)?;
            let Some(value) = value else { continue };
            if attributes.insert(attribute.name.clone(), value).is_some() {
                let reason = format!("attribute \"{}\" is given twice", attribute.name);
                return Err(GraphError::invalid(label(), reason));
            }
        }

        let domain = domain(&proto.domain);
        let id = (domain, &*proto.op_type, &*proto.overload);
        if let Some(function) = self.functions.get(&id).copied() {
            return self.call(function, frame, &inputs, &outputs, attributes, &label);
        }
        let version = *opsets.get(domain).ok_or_else(|| {
            GraphError::invalid(label(), format!("no opset of the domain \"{domain}\" is imported"))
        })?;
        let number = self.frames[frame].graph;
        if (domain, &*proto.op_type) == ("", "Constant") {
            let tensor = constant(&attributes)
                .ok_or_else(|| GraphError::invalid(label(), "it has no value that is supported"))?;
            let Some(Some(output)) = outputs.first().copied() else { return Ok(()) };
            let graph = &mut self.building[number].graph;
            graph.values[output.index()].ty = ValueType::fixed(tensor.element(), tensor.dims());
            graph.constants.push((output, tensor));
            return Ok(());
        }
        self.building[number].graph.nodes.push(Node {
            name: proto.name.clone(),
            domain: domain.to_owned(),
            op: proto.op_type.clone(),
            version,
            inputs,
            outputs,
            attributes,
        });
        Ok(())
    }

    /// Writes a function out where it is called.
    fn call(
        &mut self,
        function: &'m FunctionProto,
        caller: usize,
        inputs: &[Option<ValueId>],
        outputs: &[Option<ValueId>],
        mut attributes: BTreeMap<String, Attribute>,
        label: &dyn Fn() -> String,
    ) -> Result<(), GraphError> {
        if self.calls.iter().any(|other| std::ptr::eq(*other, function)) {
            let reason = format!("the function \"{}\" calls itself", function.name);
            return Err(GraphError::invalid(label(), reason));
        }
        if self.calls.len() >= MAX_CALLS {
            let reason = format!("functions call each other more than {MAX_CALLS} deep");
            return Err(GraphError::invalid(label(), reason));
        }
        if inputs.len() > function.input.len() || outputs.len() > function.output.len() {
            let reason = format!(
                "the function takes {} inputs and has {} outputs, not {} and {}",
                function.input.len(),
                function.output.len(),
                inputs.len(),
                outputs.len()
            );
            return Err(GraphError::invalid(label(), reason));
        }
        let graph = self.frames[caller].graph;
        for default in &function.attribute_proto {
            if !attributes.contains_key(&default.name) {
                let none = Bindings::new();
                let versions = opsets(&function.opset_import);
                if let Some(value) = self.attribute(default, caller, &versions, &none, label)? {
                    attributes.insert(default.name.clone(), value);
                }
            }
        }
        let bindings: Bindings = attributes.into_iter().collect();

        let mut names: HashMap<String, Option<ValueId>> = HashMap::new();
        for (i, name) in function.input.iter().enumerate() {
            if names.insert(name.clone(), inputs.get(i).copied().flatten()).is_some() {
                let reason = format!("the function has two inputs \"{name}\"");
                return Err(GraphError::invalid(label(), reason));
            }
        }
        let mut passed = Vec::new();
        for (i, name) in function.output.iter().enumerate() {
            let output = outputs.get(i).copied().flatten();
            if let Some(input) = names.get(name) {
                // An input handed through, or an output that is named twice.
                passed.push((*input, output));
                continue;
            }
            let id = match output {
                Some(id) => id,
                None => self.building[graph].graph.add(name.as_str(), ValueType::default()),
            };
            names.insert(name.clone(), Some(id));
        }
        let frame = self.frames.len();
        self.frames.push(Frame { names, graph, around: None });
        self.calls.push(function);
        self.nodes(&function.node, frame, &opsets(&function.opset_import), &bindings)?;
        self.calls.pop();
        self.frames.pop();
        for (from, to) in passed {
            let Some(to) = to else { continue };
            let nodes = &mut self.building[graph].graph.nodes;
            nodes.push(Node {
                name: String::new(),
                domain: String::new(),
                op: "Identity".into(),
                version: 1,
                inputs: vec![from],
                outputs: vec![Some(to)],
                attributes: BTreeMap::new(),
            });
        }
        Ok(())
    }

    /// An attribute's value; `None` of a reference to one that the caller left out.
    fn attribute(
        &mut self,
        proto: &'m AttributeProto,
        frame: usize,
        opsets: &Opsets<'m>,
        bindings: &Bindings,
        label: &dyn Fn() -> String,
    ) -> Result<Option<Attribute>, GraphError> {
        let invalid = |reason: &str| {
            GraphError::invalid(label(), format!("attribute \"{}\": {reason}", proto.name))
        };
        if !proto.ref_attr_name.is_empty() {
            return match bindings.get(&proto.ref_attr_name) {
                Some(Attribute::Graph(_)) => Err(invalid("graphs cannot be passed to functions")),
                found => Ok(found.cloned()),
            };
        }
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.to_vec()).map_err(|_| invalid("it is not UTF-8 text"))
        };
        let ty = match proto.r#type {
            // Old files do not say.
            0 if proto.t.is_some() => attribute_type::TENSOR,
            0 if proto.g.is_some() => attribute_type::GRAPH,
            0 if !proto.ints.is_empty() => attribute_type::INTS,
            0 if !proto.floats.is_empty() => attribute_type::FLOATS,
            0 if !proto.strings.is_empty() => attribute_type::STRINGS,
            0 if !proto.s.is_empty() => attribute_type::STRING,
            0 if proto.f != 0.0 => attribute_type::FLOAT,
            0 => attribute_type::INT,
            ty => ty,
        };
        Ok(Some(match ty {
            attribute_type::INT => Attribute::Int(proto.i),
            attribute_type::FLOAT => Attribute::Float(proto.f),
            attribute_type::STRING => Attribute::Text(text(&proto.s)?),
            attribute_type::INTS => Attribute::Ints(proto.ints.clone()),
            attribute_type::FLOATS => Attribute::Floats(proto.floats.clone()),
            attribute_type::STRINGS => {
                Attribute::Texts(proto.strings.iter().map(text).collect::<Result<_, _>>()?)
            }
            attribute_type::TENSOR => {
                let tensor = proto.t.as_ref().ok_or_else(|| invalid("it has no tensor"))?;
                Attribute::Tensor(tensor::decode(tensor, self.folder)?)
            }
            attribute_type::GRAPH => {
                let graph = proto.g.as_ref().ok_or_else(|| invalid("it has no graph"))?;
                let (graph, captures) = self.graph(graph, Some(frame), opsets, bindings)?;
                Attribute::Graph(Box::new(Body::new(graph, captures)))
            }
            _ => return Err(invalid("its type is not supported")),
        }))
    }
}

/// The value of a `Constant` node.
fn constant(attributes: &BTreeMap<String, Attribute>) -> Option<Tensor> {
    let (name, value) = attributes.first_key_value()?;
    Some(match (name.as_str(), value) {
        ("value", Attribute::Tensor(tensor)) => tensor.clone(),
        ("value_float", Attribute::Float(value)) => Tensor::scalar(*value),
        ("value_int", Attribute::Int(value)) => Tensor::scalar(*value),
        ("value_floats", Attribute::Floats(values)) => Tensor::from_slice(&[values.len()], values),
        ("value_ints", Attribute::Ints(values)) => Tensor::from_slice(&[values.len()], values),
        _ => return None,
    })
}

fn value_type(info: &ValueInfoProto) -> Result<ValueType, GraphError> {
    let invalid = |reason: String| GraphError::invalid(format!("value \"{}\"", info.name), reason);
    let Some(ty) = &info.r#type else { return Ok(ValueType::default()) };
    for (is, what) in [
        (ty.sequence_type.is_some(), "sequences"),
        (ty.map_type.is_some(), "maps"),
        (ty.sparse_tensor_type.is_some(), "sparse tensors"),
        (ty.optional_type.is_some(), "optional values"),
    ] {
        if is {
            return Err(invalid(format!("{what} are not supported")));
        }
    }
    let Some(ty) = &ty.tensor_type else { return Ok(ValueType::default()) };
    let element = match ty.elem_type {
        0 => None,
        number => Some(element_type(number).map_err(invalid)?),
    };
    let Some(shape) = &ty.shape else { return Ok(ValueType { element, dims: None }) };
    let mut dims = Vec::with_capacity(shape.dim.len());
    for dim in &shape.dim {
        dims.push(match (dim.dim_value, &dim.dim_param) {
            (Some(size), _) => match usize::try_from(size) {
                Ok(size) => Dim::Known(size),
                Err(_) => return Err(invalid(format!("the dimension {size} is negative"))),
            },
            (None, Some(name)) if !name.is_empty() => Dim::Symbol(name.clone()),
            _ => Dim::Unknown,
        });
    }
    Ok(ValueType { element, dims: Some(dims) })
}

/// Puts each node after those it depends on, otherwise in the order they stand in.
fn sort(graph: &mut Graph) -> Result<(), GraphError> {
    let mut maker = vec![None; graph.values.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for output in node.outputs.iter().flatten() {
            maker[output.index()] = Some(at);
        }
    }
    let needs = |node: &Node| -> Vec<usize> {
        let captured = node.attributes.values().filter_map(|attribute| match attribute {
            Attribute::Graph(body) => Some(&body.captures),
            _ => None,
        });
        let read = node.inputs.iter().flatten().chain(captured.flatten());
        read.filter_map(|value| maker[value.index()]).collect()
    };
    let mut waiting: Vec<usize> = vec![0; graph.nodes.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for need in needs(node) {
            waiting[at] += 1;
            users[need].push(at);
        }
    }
    let ready = (0..graph.nodes.len()).filter(|&at| waiting[at] == 0);
    let mut ready: std::collections::BinaryHeap<_> = ready.map(std::cmp::Reverse).collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(std::cmp::Reverse(at)) = ready.pop() {
        order.push(at);
        for &user in &users[at] {
            waiting[user] -= 1;
            if waiting[user] == 0 {
                ready.push(std::cmp::Reverse(user));
            }
        }
    }
    if order.len() < graph.nodes.len() {
        let stuck = (0..graph.nodes.len()).find(|&at| waiting[at] > 0).expect("one is left");
        let node = &graph.nodes[stuck];
        return Err(GraphError::node(
            graph,
            node,
            "it depends on itself, through a cycle of nodes",
        ));
    }
    let mut nodes: Vec<_> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = order.into_iter().filter_map(|at| nodes[at].take()).collect();
    Ok(())
}

#[cfg(test)]
mod tests;
