# The model of examples/generate in PyTorch, decoding greedily from a cache; where the context is full the text ends, and the next one begins with the prompt again. usage: python torch_glass.py SECONDS WEIGHTS CONFIG PROMPT TOKENS; prints "answer" and the tokens, then what timing.py prints
import sys,json,torch
import torch.nn.functional as F
from safetensors.torch import load_file
from timing import bench
torch.set_num_threads(2)
secs=float(sys.argv[1]); W={k:v.float() for k,v in load_file(sys.argv[2]).items()}; cfg=json.loads(sys.argv[3])
prompt=[int(t) for t in sys.argv[4].split(',')]; tokens=int(sys.argv[5])
d,h,g,ctx,eps=(cfg[k] for k in ('d_model','n_heads','n_kv_heads','max_len','eps')); dh=d//h
angle=torch.outer(torch.arange(ctx,dtype=torch.float64),cfg['rope_base']**(-torch.arange(dh//2,dtype=torch.float64)*2/dh))
COS,SIN=angle.cos().float(),angle.sin().float()
def rotate(x,at):
    a,b=x[...,0::2],x[...,1::2]; c,s=COS[at],SIN[at]
    return torch.stack((a*c-b*s,a*s+b*c),-1).flatten(-2)
class Block:
    def __init__(s,i):
        w=lambda *names: torch.cat([W[f'blocks.{i}.{n}'].t() for n in names]).contiguous()
        s.qkv=w('attn.W_Q','attn.W_K','attn.W_V'); s.out=w('attn.W_O'); s.up=w('ffn.W1','ffn.W3'); s.down=w('ffn.W2')
        s.norm1=W[f'blocks.{i}.norm1.gamma']; s.norm2=W[f'blocks.{i}.norm2.gamma']
        s.k=torch.zeros(1,g,ctx,dh); s.v=torch.zeros(1,g,ctx,dh)
    def __call__(s,x,start):
        n=x.shape[1]; at=slice(start,start+n)
        q,k,v=F.linear(F.rms_norm(x,(d,),s.norm1,eps),s.qkv).view(1,n,h+2*g,dh).transpose(1,2).split((h,g,g),1)
        q=rotate(q,at); s.k[:,:,at]=rotate(k,at); s.v[:,:,at]=v
        # A text begins with its prompt, and goes on by single tokens: the first sees what is before it, the others all.
        y=F.scaled_dot_product_attention(q,s.k[:,:,:start+n],s.v[:,:,:start+n],is_causal=n>1,enable_gqa=True)
        x=x+F.linear(y.transpose(1,2).reshape(1,n,d),s.out)
        gate,up=F.linear(F.rms_norm(x,(d,),s.norm2,eps),s.up).chunk(2,-1)
        return x+F.linear(F.silu(gate)*up,s.down)
blocks=[Block(i) for i in range(cfg['n_layers'])]
def follow(ids,start):
    x=F.embedding(torch.tensor([ids]),W['E'])
    for block in blocks: x=block(x,start)
    return F.linear(F.rms_norm(x[:,-1],(d,),W['norm_f.gamma'],eps),W['E']).argmax(-1).item()
def generate():
    out=[]
    while len(out)<tokens:
        out.append(follow(prompt,0)); at=len(prompt)
        while at<ctx and len(out)<tokens: out.append(follow([out[-1]],at)); at+=1
    return out
with torch.inference_mode():
    print("answer\t"+",".join(str(t) for t in generate()))
    for threads in 1,2:
        torch.set_num_threads(threads); bench(f"torch SDPA, threads: {threads}","generate",tokens,secs,generate)
